"""What the controller costs per sample as runs grow: whole studies with many arms and many samples.

Generators and the encoder are synthetic and take microseconds, so that the time is that of the
controller: asking, telling, solving, budgeting and journaling.
"""

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

MODES = 40
"""Number of clusters in the synthetic world; each arm draws from a few of them."""


@dataclass(frozen=True)
class Case:
    arms: int
    d: int
    samples: int

    @property
    def title(self) -> str:
        return f"{self.arms:,} arms, d = {self.d}, {self.samples:,} samples"


CASES: dict[Size, list[Case]] = {
    "full": [
        Case(10, 64, 20_000),
        Case(10, 384, 20_000),
        Case(100, 64, 20_000),
        Case(1000, 64, 20_000),
        Case(1000, 64, 200_000),
    ],
    "quick": [Case(10, 16, 1_000), Case(100, 16, 2_000)],
    "tiny": [Case(3, 8, 90)],
}


def run(size: Size) -> Report:
    found = {
        case: in_child("bench.scaling:play", *asdict(case).values()).value for case in CASES[size]
    }
    rows = [Row(case.title, each["seconds"] / case.samples) for case, each in found.items()]
    last = list(found)[-1]
    notes = [
        f"{case.title}: {each['seconds']:.0f} s in all, of which re-solves {each['solving']:.0f} s "
        f"({each['solves']} re-solves); peak memory {each['peak']:.0f} MiB; "
        f"{each['bytes'] / case.samples:.0f} bytes in the journal per sample"
        for case, each in found.items()
    ]
    return Report(
        "the controller",
        size,
        {case.title: asdict(case) for case in found},
        [Table("a whole study with synthetic generators", "s/sample", rows)],
        [
            Claim(
                "samples per second in the largest case",
                last.samples / found[last]["seconds"],
                100.0,
            )
        ],
        notes,
        {case.title: each for case, each in found.items()},
    )


def play(arms: int, d: int, samples: int) -> dict[str, Any]:
    """Runs in its own process: one study."""
    import genmix as gx
    from genmix.selector.learner import Learner

    solving: list[float] = []
    solve = Learner._solve

    def timed_solve(self: Any, *given: Any) -> Any:
        begin = perf_counter()
        try:
            return solve(self, *given)
        finally:
            solving.append(perf_counter() - begin)

    Learner._solve = timed_solve  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as name:
        fresh_peak_mebibytes()
        begin = perf_counter()
        gx.run(study(arms, d, samples), Path(name) / "run")
        taken = perf_counter() - begin
        written = os.path.getsize(Path(name) / "run" / "journal.sqlite")
    return {
        "seconds": taken,
        "solving": float(np.sum(solving)),
        "solves": len(solving),
        "median solve": float(np.median(solving)) if solving else 0.0,
        "peak": peak_mebibytes(),
        "bytes": written,
    }


def study(arms: int, d: int, samples: int) -> dict[str, Any]:
    """Prompts × models × temperatures as arms, of which each draws from a few clusters."""
    return {
        "name": "scaling",
        "arms": {
            name_of(arm): {
                "kind": "callable",
                "function": "bench.scaling:make",
                "arguments": {"arm": arm},
                "batch": 16,
            }
            for arm in range(arms)
        },
        "encoder": {"kind": "callable", "function": "bench.scaling:embed", "arguments": {"d": d}},
        "objective": "vendi",
        "budget": {"samples": samples},
        "warm_start": 5,
        "in_flight": 64,
    }


def name_of(arm: int) -> str:
    return f"m{arm % 5}/p{arm // 5 % 50:02d}/t{arm // 250}"


def make(seeds: list[int], arm: int) -> list[str]:
    return [f"{arm} {seed}" for seed in seeds]


def embed(texts: list[str], d: int) -> Any:
    """A point near one of the clusters of its arm; arms with few clusters repeat themselves."""
    found = np.empty((len(texts), d))
    for row, text in zip(found, texts, strict=True):
        arm, seed = map(int, text.split())
        rng = np.random.default_rng(seed)
        own = np.random.default_rng(arm).integers(MODES, size=1 + arm % 5)
        row[:] = _center(int(rng.choice(own)), d) + 0.2 * rng.standard_normal(d)
    return found


def _center(mode: int, d: int) -> Any:
    return np.random.default_rng([mode, d]).standard_normal(d)
