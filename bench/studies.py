"""A study of recorded arms: overhead per sample, including the journal, and memory."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from bench.child import fresh_peak_mebibytes, in_child, peak_mebibytes
from bench.table import Claim, Report, Row, Size, Table


@dataclass(frozen=True)
class Parameters:
    samples: int
    d: int
    frequencies: int
    batch: int
    arms: int = 5


SIZES: dict[Size, Parameters] = {
    "full": Parameters(10_000, 384, 256, 64),
    "quick": Parameters(2_000, 128, 64, 64),
    "tiny": Parameters(120, 8, 4, 16, arms=2),
}


def run(size: Size) -> Report:
    at = SIZES[size]
    whole = in_child("bench.studies:play", size, at.samples).value
    part = in_child("bench.studies:play", size, at.samples // 5).value
    each = whole["seconds"] / at.samples
    growth = whole["peak"] / part["peak"]
    table = Table(
        "genmix run on recorded features: ask, generate, tell, journal, results",
        "s/sample",
        [
            Row(f"{at.samples} samples", each),
            Row(f"{at.samples // 5} samples", part["seconds"] / (at.samples // 5)),
        ],
    )
    return Report(
        "a whole study",
        size,
        asdict(at),
        [table],
        [
            Claim("milliseconds per sample", 1000 * each, 3.0, at_least=False),
            Claim("peak memory, all samples over one fifth of them", growth, 1.2, at_least=False),
        ],
        [
            f"peak resident memory {whole['peak']:.0f} MiB after {at.samples} samples, "
            f"{part['peak']:.0f} MiB after {at.samples // 5}; the journal has {whole['bytes']} bytes"
        ],
        {"whole": whole, "part": part},
    )


def play(size: Size, samples: int) -> dict[str, Any]:
    """Runs in its own process: one study."""
    at = SIZES[size]
    import genmix as gx

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        for arm in range(at.arms):
            rows = rng.normal(size=(at.samples, at.d)) + rng.normal(size=at.d)
            np.save(folder / f"arm{arm}.npy", rows.astype(np.float32))
            del rows
        fresh_peak_mebibytes()
        begin = perf_counter()
        study = _study(folder, at, samples)
        gx.run(study, folder / "run")
        taken = perf_counter() - begin
        written = os.path.getsize(folder / "run" / "journal.sqlite")
        return {"seconds": taken, "peak": peak_mebibytes(), "bytes": written}


def _study(folder: Path, at: Parameters, samples: int) -> dict[str, Any]:
    kernel = {"gaussian": {"features": at.frequencies}}
    return {
        "name": "bench",
        "arms": {
            f"arm{arm}": {
                "kind": "recorded",
                "path": str(folder / f"arm{arm}.npy"),
                "batch": at.batch,
            }
            for arm in range(at.arms)
        },
        "objective": {"vendi": {"kernel": kernel}},
        "budget": {"samples": samples},
    }
