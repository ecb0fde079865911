"""Small folders of shards in all formats, and the same samples in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import genmix as gx

SIZES = {"a": 120, "b": 90, "c": 70}
DIMENSION = 5


def clouds(seed: int = 0, sizes: dict[str, int] = SIZES) -> dict[str, Any]:
    """Float32 samples of several arms with different means and spreads."""
    rng = np.random.default_rng(seed)
    return {
        name: (
            rng.normal(size=(n, DIMENSION)) * rng.uniform(0.2, 2, DIMENSION)
            + rng.normal(size=DIMENSION)
        ).astype(np.float32)
        for name, n in sizes.items()
    }


def write_parquet(path: Path, rows: Any, **columns: Any) -> None:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
    pq.write_table(pa.table({"embedding": lists, **columns}), path, row_group_size=16)


def write_folder(folder: Path, rows: Any, **numbers: Any) -> Path:
    """Write rows to five files of different formats; ``numbers`` are in all of them but .npy files."""
    folder.mkdir(parents=True)
    parts = np.array_split(np.arange(len(rows)), 5)
    some = [{name: values[part] for name, values in numbers.items()} for part in parts]
    np.savez(folder / "0.npz", features=rows[parts[0]], **some[0])
    np.savez_compressed(folder / "1.npz", features=rows[parts[1]], **some[1])
    write_parquet(folder / "2.parquet", rows[parts[2]], **some[2])
    if numbers:
        np.savez(folder / "3.npz", features=np.asfortranarray(rows[parts[3]]), **some[3])
        np.savez(folder / "4.npz", features=rows[parts[4]], **some[4])
    else:
        np.save(folder / "3.npy", np.asfortranarray(rows[parts[3]]))
        np.save(folder / "4.npy", rows[parts[4]])
    return folder


def sharded(place: Path, arms: dict[str, Any]) -> dict[str, gx.Shards]:
    return {name: gx.Shards(write_folder(place / name, rows)) for name, rows in arms.items()}
