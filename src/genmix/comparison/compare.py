"""Compare policies on the same arms with paired seeds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from genmix.comparison.comparison import Comparison
from genmix.comparison.plan import Options, Plan
from genmix.comparison.trial import TrialStore, run_trial
from genmix.comparison.variant import read_variants
from genmix.comparison.worlds import World
from genmix.core.arrays import as_matrix, to_numpy
from genmix.core.optional import require
from genmix.errors import InputError, number, whole
from genmix.objectives import Objective
from genmix.shards.processes import run_jobs

RUNS = "runs"
"""The folder for finished trials."""

Progress = Callable[[int, int], None]
"""A callback that receives the number of finished trials and the total number of trials."""


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
    """Compare policies on the same arms, with paired seeds.

    Samples are drawn with replacement from the recorded samples of each arm, which are therefore the
    population, and the mixture ``α*`` that minimizes the population loss ``L`` is known exactly.
    Policies are compared by the score of all samples drawn and by the regret
    ``Σ_t [L(α_t) − L(α*)]`` of their mixtures. Within a repeat, the k-th sample of an arm is the
    same for every policy. Bounds on weights and budgets of cost and time do not apply.

    Parameters
    ----------
    study : path, dict, Run, World or mapping of str to array
        A study whose arms are recorded (a dict can contain Python objects, as for
        :func:`genmix.run`), a run (its samples become the arms), a world, or the samples ``(n, d)`` of
        each arm. The last two require ``objective`` and ``budget``.
    policies : sequence or mapping, optional
        Policies, policy names or :class:`genmix.Variant` objects, or a mapping from labels to these.
        The first is tested against the others. ``"mixture-oracle"`` and ``"one-arm-oracle"`` know
        the best mixture and the best arm. The default is Mixture-UCB-V (the default of studies),
        Mixture-Greedy, Mixture-UCB, uniform weights, the two oracles and one-arm greedy.
    repeats : int, default 20
        Paired trials per policy.
    objective : Objective, optional
        The objective used to score the policies; by default the study's objective.
    budget : int, optional
        Samples per trial; by default the study's budget.
    warm_start, draw, resolve_growth, seed
        Options for the selector; by default those of the study.
    population : bool, default True
        Whether to record population scores, which are needed for regret.
    workers : int, optional
        Number of processes; by default one per core. Results do not depend on it.
    out : path, optional
        A folder for finished trials, so that an interrupted comparison can continue. Trials with
        policies or objectives defined outside genmix are not stored, because their code can change.
    progress : callable, optional
        Called with the number of finished trials and the total number of trials.

    Returns
    -------
    Comparison
        Curves, outcomes and paired tests.

    Raises
    ------
    InputError
        If an argument is invalid, or an arm of the study is not recorded.
    StorageError
        If a file in ``out`` cannot be written or read.

    Examples
    --------
    >>> import genmix as gx
    >>> import numpy as np
    >>> arms = {"a": np.eye(4)[:1], "b": np.eye(4)[1:]}
    >>> result = gx.compare(
    ...     arms,
    ...     ["mixture-greedy", "uniform"],
    ...     repeats=4,
    ...     objective=gx.Vendi(),
    ...     budget=100,
    ...     workers=1,
    ... )
    >>> {arm: round(weight, 2) for arm, weight in result.best_weights.items()}
    {'a': 0.25, 'b': 0.75}
    >>> result.is_better("mixture-greedy", "uniform")
    True
    """
    world, own, options = _read(study, objective)
    given = {
        "rounds": None if budget is None else whole(budget, "budget", 2),
        "warm_start": None if warm_start is None else whole(warm_start, "warm_start", 1),
        "draw": draw,
        "resolve_growth": resolve_growth,
        "seed": None if seed is None else whole(seed, "seed", 0),
    }
    options |= {key: value for key, value in given.items() if value is not None}
    if "rounds" not in options:
        raise InputError("the budget is missing; pass budget=, the number of samples per trial.")
    if options.get("draw") not in (None, "iid", "tracking"):
        raise InputError(f'draw is {draw!r}; pass "iid" or "tracking".')
    number(options.get("resolve_growth", 0.0), "resolve_growth", 0.0)
    variants = read_variants(policies)
    plan = Plan.of(world, own, variants, repeats, Options(**options, population=population))
    return run_plan(plan, out, workers, progress)


def run_plan(
    plan: Plan,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Comparison:
    """Run the trials that are not yet in ``out``, then read all trials."""
    if workers is not None:
        whole(workers, "workers", 1)
    if plan.repeats > 1:
        require("scipy", extra="paper", what="a comparison")
    with TemporaryDirectory() as scratch:
        # The code of custom functions and classes can change while the key stays the same.
        store = TrialStore(
            Path(out if out is not None and plan.has_stable_keys else scratch, RUNS).resolve()
        )
        _run_missing(plan, store, workers, progress)
        trials = [store.read(plan.key(*trial), trial[0]) for trial in plan.trials]
    return Comparison(plan, trials)


def _run_missing(plan: Plan, store: TrialStore, workers: int | None, progress: Progress) -> None:
    trials = {plan.key(*trial): trial for trial in plan.trials}
    missing = [trial for key, trial in trials.items() if not store.has(key)]
    done = len(trials) - len(missing)
    progress(done, len(trials))
    with closing(run_jobs(_run_and_store, (plan, store), missing, workers)) as finished:
        for _ in finished:
            done += 1
            progress(done, len(trials))


def _run_and_store(shared: tuple[Plan, TrialStore], trial: tuple[str, int]) -> None:
    plan, store = shared
    store.write(plan.key(*trial), run_trial(plan, *trial))


def _read(study: Any, objective: Objective | None) -> tuple[World, Objective, dict[str, Any]]:
    """Return the world, the objective, and the options that the study sets."""
    if isinstance(study, World) or _holds_samples(study):
        if objective is None:
            raise InputError("the objective is missing; pass objective=, e.g. Vendi().")
        return study if isinstance(study, World) else _world(study), objective, {}
    from genmix.comparison.study_world import read_study_world

    found = read_study_world(study, objective)
    return found.world, found.objective, found.options


def _holds_samples(study: Any) -> bool:
    return isinstance(study, Mapping) and not isinstance(study.get("arms"), Mapping)


def _world(arms: Mapping[str, Any]) -> World:
    pools = {
        str(name): np.asarray(to_numpy(as_matrix(rows, f"arm {name!r}")), dtype=float)
        for name, rows in arms.items()
    }
    if not pools:
        raise InputError("there are no arms; pass a mapping from label to samples.")
    return World("arms", pools)
