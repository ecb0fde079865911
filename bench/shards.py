"""Shards that are larger than memory: time and peak memory of mixture, score, diagnose and keep.

Four arms of synthetic features are written as .npy, .npz, float16 .npz and Parquet files. Each command runs
in its own interpreter. The same commands on the first files of each arm, in memory and in blocks, must agree.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import genmix as gx
from bench.child import in_child
from bench.table import Claim, Report, Row, Size, Table
from genmix.data import shards as shards_module

TITLE = "shards that are larger than memory"
COMMANDS = ("mixture", "score", "diagnose", "keep")
ARMS = ("npy", "npz", "half", "parquet")


@dataclass(frozen=True)
class Parameters:
    gigabytes: float
    d: int
    rows: int
    """Samples per file."""
    k: int


SIZES: dict[Size, Parameters] = {
    "full": Parameters(5.0, 256, 100_000, 50_000),
    "quick": Parameters(0.2, 128, 20_000, 5_000),
    "tiny": Parameters(0.0005, 8, 1_000, 100),
}


def run(size: Size = "full", folder: str | None = None) -> Report:
    """Write the shards to ``folder``, by default a temporary one, and measure the commands."""
    at = SIZES[size]
    place = Path(folder or tempfile.mkdtemp(prefix="shards-"))
    try:
        if not any(place.iterdir()):
            write(place, at)
        total = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        found = {
            name: in_child("bench.shards:measure", str(place), name, at.k) for name in COMMANDS
        }
        what = f"{total / 1e9:.2f} GB of features, {at.d} dimensions"
        tables = [
            Table(f"{what}: time", "s", [Row(n, f.value[0]) for n, f in found.items()]),
            Table(f"{what}: peak memory", "MiB", [Row(n, f.peak) for n, f in found.items()]),
            Table(
                "the largest worker",
                "MiB",
                [Row(n, f.value[1]) for n, f in found.items() if f.value[1]],  # keep has none
            ),
        ]
        worst = max(difference(place, name) for name in COMMANDS)
        peak = max(max(f.peak, f.value[1]) for f in found.values())
        claims = [
            Claim("peak memory of a process, MB", peak * 1.048576, 1000.0, at_least=False),
            Claim("distance to the results in memory", worst, 1e-10, at_least=False),
        ]
        return Report(TITLE, size, asdict(at), tables, claims)
    finally:
        if folder is None:
            shutil.rmtree(place)


def write(folder: Path, at: Parameters) -> None:
    """Write about as many bytes for each arm: clouds with different means and spectra."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for i, arm in enumerate(ARMS):
        rng = np.random.default_rng(i)
        kind = np.float16 if arm == "half" else np.float32
        files = max(2, round(at.gigabytes * 1e9 / 4 / (at.rows * at.d * kind(0).itemsize)))
        scales = np.float32(0.1) + rng.random(at.d, dtype=np.float32) ** 4
        mean = rng.standard_normal(at.d, dtype=np.float32) * np.float32(0.2)
        (folder / arm).mkdir()
        for number in range(files):
            rows = (rng.standard_normal((at.rows, at.d), dtype=np.float32) * scales + mean).astype(
                kind
            )
            name = folder / arm / f"part-{number:04}"
            if arm == "npy":
                np.save(name.with_suffix(".npy"), rows)
            elif arm == "parquet":
                lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), at.d)
                table = pa.table({"embedding": lists})
                pq.write_table(table, name.with_suffix(".parquet"), row_group_size=20_000)
            else:
                np.savez(name.with_suffix(".npz"), features=rows)


def measure(folder: str, command: str, k: int) -> tuple[float, float]:
    """Return the seconds that a command takes, and the peak memory of its largest worker in MiB."""
    shards_module.HELD_BYTES = 0  # also for small benchmarks
    begin = perf_counter()
    answer(command, {arm: gx.Shards(Path(folder, arm)) for arm in ARMS}, k)
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return perf_counter() - begin, children


def answer(command: str, arms: dict[str, Any], k: int) -> list[float]:
    """Run a command, and return its numbers."""
    if command == "mixture":
        mix = gx.optimal_mixture(arms, gx.Vendi())
        return [*mix.weights.values(), float(mix.score), mix.loss]
    if command == "score":
        table = gx.score(arms, gx.Vendi())
        return [float(row["vendi"]) for row in [*table.arms.values(), table.pooled]]
    if command == "diagnose":
        arm = gx.diagnose(arms, gx.Vendi()).arms
        return [x for a in arm.values() for x in (a.weight, a.innovation.gap, a.leave_one_out)]
    if isinstance(next(iter(arms.values())), gx.Shards):
        samples: Any = gx.Shards([file.path for each in arms.values() for file in each.files])
    else:
        samples = np.concatenate(list(arms.values()))
    kept = gx.keep(samples, k, gx.Vendi(), tolerance=1e-2)
    return [float(kept.score), kept.loss, kept.loss_bound, float(kept.indices.sum())]


def difference(folder: Path, command: str) -> float:
    """Return how far the results in blocks are from those in memory, on the first rows of each arm."""
    parts, limit = {}, shards_module.HELD_BYTES
    with tempfile.TemporaryDirectory() as place:
        for arm in ARMS:
            rows = gx.Shards(next(iter(sorted((folder / arm).iterdir())))).take(np.arange(1_000))
            for half in range(2):
                np.save(Path(place, f"{arm}-{half}.npy"), rows[500 * half : 500 * half + 500])
            parts[arm] = rows
        files = {arm: gx.Shards(sorted(Path(place).glob(f"{arm}-*.npy"))) for arm in ARMS}
        shards_module.HELD_BYTES = 0
        try:
            streamed = answer(command, files, 100)
        finally:
            shards_module.HELD_BYTES = limit
    held = answer(command, parts, 100)
    return max(abs(a - b) / max(1.0, abs(a)) for a, b in zip(held, streamed, strict=True))
