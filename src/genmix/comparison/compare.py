"""Compare policies on the same arms, with paired seeds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from genmix.comparison.comparison import Comparison
from genmix.comparison.plan import POINTS, Options, Plan
from genmix.comparison.store import Store
from genmix.comparison.variants import read_variants
from genmix.comparison.workforce import Progress, cores, make_all
from genmix.comparison.worlds import World
from genmix.core.arrays import as_matrix, to_numpy
from genmix.errors import InputError, number, whole
from genmix.objectives.base import Objective

RUNS = "runs"


def compare(
    study: Any,
    policies: Any = None,
    repeats: int = 20,
    *,
    objective: Objective | None = None,
    budget: int | None = None,
    warm_start: int | None = None,
    draw: Literal["iid", "tracking"] | None = None,
    resolve_growth: float | None = None,
    seed: int | None = None,
    population: bool = True,
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress = lambda done, total: None,
) -> Comparison:
    """Several policies on the same arms, ``repeats`` times each.

    ``study``: a study whose arms are recorded (a path, a dict), a run folder, whose samples then are the
    arms, a World, or a map from label to samples ``(n, d)`` with ``objective=`` and ``budget=``. Arms'
    samples are drawn with replacement, so that they are the population, whose best mixture is exact.

    ``policies``: policies or their names in a list, or a map from label to those or to Variants; the first
    is what the others are tested against. "mixture-oracle" and "one-arm-oracle" know the best mixture
    and arm. ``out``: a folder that keeps finished runs, from which an interrupted comparison goes on.
    ``workers``: processes, by default one for each core; results do not depend on their number.
    """
    world, settings = _read(study, objective, seed)
    given = {
        "rounds": None if budget is None else whole(budget, "budget", 2),
        "warm_start": None if warm_start is None else whole(warm_start, "warm_start", 1),
        "draw": draw,
        "resolve_growth": resolve_growth,
        "seed": None if seed is None else whole(seed, "seed", 0),
    }
    chosen = settings.options | {key: value for key, value in given.items() if value is not None}
    if "rounds" not in chosen:
        raise InputError("there is no budget: give budget=, the samples of one run.")
    if chosen.get("draw", "iid") not in ("iid", "tracking"):
        raise InputError(f'draw is {draw!r}: give "iid" or "tracking".')
    number(chosen.get("resolve_growth", 0.0), "resolve_growth", 0.0)
    plan = Plan.of(
        world,
        settings.objective if objective is None else objective,
        read_variants(policies if policies is not None else settings.policies),
        repeats,
        Options(**chosen, population=population, points=POINTS),
    )
    return carry_out(plan, out, workers, progress)


def carry_out(
    plan: Plan,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Comparison:
    """Make the runs of a plan that are not in ``out`` yet, and read them all."""
    crew = cores() if workers is None else whole(workers, "workers", 1)
    with TemporaryDirectory() as scratch:
        # Runs of functions and classes of the user's are not kept: no name tells when those change.
        store = Store(Path(out if out is not None and plan.travels else scratch, RUNS))
        make_all(plan, store, crew, progress)
        return Comparison(plan, [store.read(plan.key(*cell), cell[0]) for cell in plan.cells])


class _Settings:
    """What the study says of itself."""

    def __init__(self, objective: Any = None, policies: Any = None, **options: Any) -> None:
        self.objective, self.policies, self.options = objective, policies, options


def _read(study: Any, objective: Objective | None, seed: int | None) -> tuple[World, _Settings]:
    if isinstance(study, World) or _holds_samples(study):
        if objective is None:
            raise InputError("there is no objective: give objective=, such as Vendi().")
        return study if isinstance(study, World) else _world(study), _Settings()
    from genmix.comparison.pools import read_study_pools

    found = read_study_pools(study)
    return found.world, _Settings(found.objective, None, **found.options)


def _holds_samples(study: Any) -> bool:
    return isinstance(study, Mapping) and not isinstance(study.get("arms"), Mapping)


def _world(arms: Mapping[str, Any]) -> World:
    pools = {
        str(name): np.asarray(to_numpy(as_matrix(rows, f"arm {name!r}")), dtype=float)
        for name, rows in arms.items()
    }
    if not pools:
        raise InputError("there are no arms: give a map from label to samples.")
    return World("arms", pools)
