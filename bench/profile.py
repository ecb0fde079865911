"""Where the time of the Fréchet run goes: eigendecompositions, products, the solver, ask and tell."""

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
"""File, line and name, as pstats has them."""

FACTORISATIONS = ("eigh", "eigvalsh", "svd", "svdvals", "cholesky", "qr")

ROOMS = {
    "objectives": "products and losses",
    "kernels": "kernels and features",
    "solvers": "solver",
    "policies": "solver",
    "daqp": "solver",
}
"""What the work of a file or folder is called; the rest of genmix is asking and telling."""


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
        tables.append(Table(title, "s", [Row("ask and tell in all", plain.seconds), *rows]))
        figures[name] = parts
    return Report(
        "where the time of a run goes",
        size,
        asdict(at),
        tables,
        notes=[
            "shares from cProfile, which makes small calls look dearer; seconds from a run without"
        ],
        figures=figures,
    )


def shares(stats: dict[Function, Any]) -> dict[str, float]:
    """Profiled seconds of each part; what is no part of its own goes to those who called it."""
    parts: dict[str, float] = {}
    for function, (_, _, own, _, callers) in stats.items():
        for part, share in _owners(function, callers, stats, ()).items():
            parts[part] = parts.get(part, 0.0) + own * share
    parts.pop(OUTSIDE, None)
    return parts


OUTSIDE = "outside"
"""Drawing samples and the benchmark itself."""


def _owners(
    function: Function, callers: Any, stats: dict[Function, Any], path: tuple[Function, ...]
) -> dict[str, float]:
    """Which parts a function works for, in shares that sum to 1."""
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
    """The part that a function belongs to by itself; None for a helper that works for its caller."""
    file, _, name = function
    places = PurePath(file).parts
    if name in FACTORISATIONS:
        return "eigendecompositions and other factorisations"
    if "genmix" in places:
        below = places[places.index("genmix") + 1 :]
        found = next((ROOMS[place] for place in below if place in ROOMS), None)
        if found is None and below[-1] in ("arrays.py", "description.py"):
            return None
        return found or "ask and tell"
    if "bench" in places:
        return OUTSIDE
    return next((ROOMS[place] for place in places if place in ROOMS), None)
