"""Coverage as an objective: expected coverage by enumeration, its optimum, its bias, and studies."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.core import state
from genmix.errors import InputError
from genmix.study.components import with_draws
from genmix.study.study import StudyError, study_from
from tests.support.helpers import loss_of
from tests.support.keep_judges import Case, inside_balls

RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((9, 2))
ARMS = {"a": RNG.standard_normal((3, 2)), "b": RNG.standard_normal((2, 2)) + 1}


def expected_coverage(alpha: Any, draws: int) -> float:
    """The mean coverage over all sequences of draws, weighted by their probabilities."""
    rows = np.concatenate(list(ARMS.values()))
    inside = inside_balls(Case(rows, REAL, None, None), 2)
    chances = np.repeat(alpha / [3, 2], [3, 2])
    sequences = np.array(list(itertools.product(range(len(rows)), repeat=draws)))
    return float(chances[sequences].prod(1) @ inside[sequences].any(1).mean(1))


@pytest.mark.parametrize("draws", [1, 2, 4])
def test_the_score_is_the_expected_coverage_of_the_draws(draws: int) -> None:
    loss = loss_of(gx.Coverage(REAL, k=2, at=draws), ARMS)
    for weight in (0.0, 0.3, 1.0):
        alpha = np.array([weight, 1 - weight])
        assert loss.score(alpha) == pytest.approx(expected_coverage(alpha, draws))


@pytest.mark.parametrize("draws", [1, 5, 50])
def test_the_optimum_beats_a_grid(draws: int) -> None:
    objective = gx.Coverage(REAL, k=2, at=draws)
    mix = gx.optimal_mixture(ARMS, objective)
    loss = loss_of(objective, ARMS)
    grid = [loss.score(np.array([w, 1 - w])) for w in np.linspace(0, 1, 101)]
    assert float(mix.score) >= max(grid) - 1e-9  # type: ignore[arg-type]
    assert mix.gap < 1e-8


def test_many_draws_reach_every_ball_that_a_sample_has_reached() -> None:
    rows = np.concatenate(list(ARMS.values()))
    reached = gx.score({"a": rows}, gx.Vendi(), reference=REAL, k=2).pooled["coverage"]
    loss = loss_of(gx.Coverage(REAL, k=2, at=10**6), ARMS)
    assert loss.score(np.array([0.5, 0.5])) == pytest.approx(float(reached))


def test_few_samples_underestimate_the_coverage_of_many_draws() -> None:
    """One sample per ball and arm: with 5 of 40 balls reached, 1000 draws seem to cover an eighth."""
    centers = 10.0 * np.arange(40)[:, None]
    real = np.concatenate([centers, centers + 0.1])
    every, few = centers + 0.05, centers[:5] + 0.05
    objective = gx.Coverage(real, k=1, at=1000)
    truth, seen = (gx.optimal_mixture({"a": rows}, objective).score for rows in (every, few))
    assert float(truth) == pytest.approx(1, abs=1e-6)  # type: ignore[arg-type]
    assert float(seen) == pytest.approx(1 / 8)  # type: ignore[arg-type]


def test_a_ball_around_everything_is_covered_at_once() -> None:
    loss = loss_of(gx.Coverage([[0.0], [100.0]], k=1, at=3), {"a": np.ones((2, 1))})
    assert loss.score(np.ones(1)) == 1
    assert np.all(np.isfinite(loss.expand(np.ones(1)).hessian))


@pytest.mark.parametrize(
    ("at", "words"), [(0, "at is 0"), (2.5, "at is 2.5"), (True, "at is True")]
)
def test_the_number_of_draws_is_a_whole_number(at: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        gx.Coverage(REAL, k=2, at=at)


# -- studies -----------------------------------------------------------------------------------------


def study_in(folder: Path, **changes: Any) -> dict[str, Any]:
    for name, rows in {"one": RNG.standard_normal((60, 2)), "real": REAL}.items():
        np.save(folder / f"{name}.npy", rows)
    return {
        "arms": {"one": {"kind": "recorded", "path": str(folder / "one.npy")}},
        "objective": ["vendi", {"coverage": {"k": 2, "weight": 0.5}}],
        "reference": str(folder / "real.npy"),
        "budget": {"samples": 30},
        **changes,
    }


def draws_of(run: gx.Run) -> int:
    """The number of draws in the objective of a run's selector."""
    saved = state.load(run.folder / "selector.npz")["selector"]
    objective: Any = gx.Selector.from_state_dict(saved).objective
    return int(objective.terms[1][1].at)


def test_a_study_covers_with_its_budget_and_an_extended_run_keeps_it(tmp_path: Path) -> None:
    run = gx.run(study_in(tmp_path), tmp_path / "run")
    assert draws_of(run) == 30
    longer = gx.resume(run, samples=45)
    assert sum(longer.counts.values()) == 45
    assert draws_of(longer) == 30
    (tmp_path / "run" / "selector.npz").unlink()  # the journal alone restores the same objective
    assert draws_of(gx.resume(tmp_path / "run", samples=50)) == 30


def test_a_study_can_set_the_draws(tmp_path: Path) -> None:
    written = study_in(tmp_path, objective={"coverage": {"k": 2, "at": 7}})
    assert study_from(written).plain()["objective"] == [
        {"coverage": {"k": 2, "at": 7, "weight": 1.0}}
    ]
    free = study_in(tmp_path, objective={"coverage": {"k": 2}}, budget={"time": "1m"})
    study = study_from(free)
    assert with_draws(study).objective[0].build(REAL).at == 1000
    with pytest.raises(StudyError, match="at"):
        study_from(study_in(tmp_path, objective={"coverage": {"at": 0}}))
