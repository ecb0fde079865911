"""Where the time of a run goes: eigendecompositions, products, the solver, ask and tell."""

from __future__ import annotations

import cProfile
import pstats
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from bench.online import drive
from bench.spectral_run import SIZES, world_of
from bench.table import Report, Row, Size, Table

MOST_ROUNDS = 2500

Function = tuple[str, int, str]
"""File, line and name, as in pstats."""

FACTORIZATIONS = ("eigh", "eigvalsh", "svd", "svdvals", "cholesky", "qr")

ROOMS = {
    "objectives": "products and losses",
    "kernels": "kernels and features",
    "solvers": "solver",
    "policies": "solver",
    "daqp": "solver",
}
"""The part of the run that a file or folder belongs to; the rest of genmix is ask and tell."""


def run(size: Size = "full") -> Report:
    at = SIZES[size]
    tables, figures = [], {}
    rounds = min(at.rounds, MOST_ROUNDS)
    for name in ("frechet", "vendi"):
        world, _, objective = world_of(name, size)
        plain = drive(world, objective, rounds, keep=False)
        profile = cProfile.Profile()
        profile.enable()
        drive(world, objective, rounds, keep=False)
        profile.disable()
        parts = shares(vars(pstats.Stats(profile))["stats"])
        whole = sum(parts.values())
        rows = [
            Row(part, plain.seconds * part_seconds / whole, how=f"{part_seconds / whole:.1%}")
            for part, part_seconds in sorted(parts.items(), key=lambda item: -item[1])
        ]
        title = f"{name}: {plain.seconds:.4g} s, {len(plain.resolves)} re-solves"
        tables.append(Table(title, "s", [Row("ask and tell, total", plain.seconds), *rows]))
        figures[name] = parts
    return Report(
        "where the time of a run goes",
        size,
        asdict(at),
        tables,
        notes=[
            "shares are from cProfile, which overstates small calls; seconds are from a run without it"
        ],
        figures=figures,
    )


def shares(stats: dict[Function, Any]) -> dict[str, float]:
    """Profiled seconds of each part; functions outside all parts count toward their callers."""
    parts: dict[str, float] = {}
    for function, (_, _, own, _, callers) in stats.items():
        for part, share in _owners(function, callers, stats, ()).items():
            parts[part] = parts.get(part, 0.0) + own * share
    parts.pop(OUTSIDE, None)
    return parts


OUTSIDE = "outside"
"""Drawing samples, and the benchmark itself."""


def _owners(
    function: Function, callers: Any, stats: dict[Function, Any], path: tuple[Function, ...]
) -> dict[str, float]:
    """The parts that a function works for, in shares that sum to 1."""
    known = _part(function)
    if known is not None or not callers or len(path) > 8 or function in path:
        return {known or OUTSIDE: 1.0}
    total = sum(call[3] for call in callers.values()) or 1.0
    owners: dict[str, float] = {}
    for caller, call in callers.items():
        above = _owners(caller, stats[caller][4], stats, (*path, function))
        for part, share in above.items():
            owners[part] = owners.get(part, 0.0) + share * call[3] / total
    return owners


def _part(function: Function) -> str | None:
    """The part that a function belongs to; None for a helper that counts toward its callers."""
    file, _, name = function
    places = PurePath(file).parts
    if name in FACTORIZATIONS:
        return "eigendecompositions and other factorizations"
    if "genmix" in places:
        below = places[places.index("genmix") + 1 :]
        found = next((ROOMS[place] for place in below if place in ROOMS), None)
        if found is None and below[-1] in ("arrays.py", "description.py"):
            return None
        return found or "ask and tell"
    if "bench" in places:
        return OUTSIDE
    return next((ROOMS[place] for place in places if place in ROOMS), None)
