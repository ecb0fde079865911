"""Tiny recorded worlds, written as the real ones are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.helpers import Matrix, gaussian_arms


def write_world(
    folder: Path, name: str, arms: Mapping[str, Matrix], reference: Matrix | None = None
) -> None:
    """A recorded world with one encoder."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {f"arm_{i}": rows for i, rows in enumerate(arms.values())}
    if reference is not None:
        arrays["reference"] = reference
    half = {key: rows.astype(np.float16) for key, rows in arrays.items()}
    np.savez_compressed(place / "tiny.npz", **half)
    d = next(iter(arms.values())).shape[1]
    encoders = {"tiny": {"file": "tiny.npz", "name": "tiny encoder", "dimension": d}}
    card = {"name": name, "note": "tiny", "arms": list(arms), "costs": None, "encoders": encoders}
    (place / "world.json").write_text(json.dumps(card), "utf-8")


def write_worlds(folder: Path, n: int = 40, d: int = 4) -> Path:
    """All four, small: every arm is needed in breeds and boots, fashion and city are Gaussians."""
    rng = np.random.default_rng(3)
    for name, m in (("fashion", 4), ("city", 3)):
        clouds = gaussian_arms(rng, [n] * m, d, spread=1.5)
        reference = np.concatenate([rows[::2] for rows in clouds])
        write_world(folder, name, {f"{name} {i}": r for i, r in enumerate(clouds)}, reference)
    for name in ("breeds", "boots"):
        arms = {f"{name} {i}": np.repeat(np.eye(d)[[i]], n, 0) for i in range(d)}
        write_world(folder, name, arms)
    return folder
