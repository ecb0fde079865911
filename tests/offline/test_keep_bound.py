"""The promise of ``keep``: no subset beats the bound, and the kept set is nearly the best one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.opponents.greedy_vendi import farthest_point, lazy_greedy

import genmix as gx
from genmix.offline import sample_losses
from tests.support.keep_judges import JUDGES, Case, make_case, scores_ddof1


def judged(name: str, seed: int, most: int) -> float:
    """Check the bound in one world; return how much of the way to the optimum was closed."""
    make, losses = JUDGES[name]
    case, k = make_case(name, seed, most)
    kept = gx.keep(case.X, k, make(case.reference), quality=case.quality, cost=case.cost)
    sets = case.subsets(k)
    found = losses(case, sets)
    (own,) = losses(case, kept.indices[None, :])
    scale = max(1.0, float(np.abs(found).max()))
    assert kept.loss == pytest.approx(own, abs=1e-7 * scale)
    assert kept.loss_bound <= found.min() + 1e-9 * scale
    assert kept.gap == kept.loss - kept.loss_bound
    _check_score(name, kept, case, sets)
    way = float(found.mean() - found.min())
    return 1.0 if way < 1e-9 * scale else float(found.mean() - own) / way


def _check_score(name: str, kept: gx.Kept, case: Case, sets: Any) -> None:
    """The bound in units of the score is on the right side of the best and of the kept score."""
    if isinstance(kept.score, dict):
        assert kept.bound is None
        return
    assert kept.bound is not None
    slack = 1e-7 * max(1.0, abs(float(kept.score)))
    if kept.score.maximise:
        assert kept.bound >= float(kept.score) - slack
    else:
        assert kept.bound <= float(kept.score) + slack
    if name == "frechet_ddof1":
        assert kept.bound <= scores_ddof1(case, sets).min() + slack


@pytest.mark.parametrize("name", JUDGES)
def test_no_subset_beats_the_bound(name: str) -> None:
    assert judged(name, seed=1, most=9) >= 0.99


@pytest.mark.drill
@pytest.mark.parametrize("name", JUDGES)
def test_no_subset_beats_the_bound_in_more_worlds(name: str) -> None:
    closed = [judged(name, seed, most=12) for seed in range(2, 9)]
    assert np.mean(np.array(closed) >= 0.99) >= 0.9


@pytest.mark.long
@pytest.mark.parametrize("name", JUDGES)
def test_no_subset_beats_the_bound_in_a_hundred_worlds(name: str) -> None:
    closed = [judged(name, seed, most=18) for seed in range(100, 200)]
    assert np.mean(np.array(closed) >= 0.99) >= 0.9


@pytest.mark.parametrize(
    "name", ["rke", "rke_unbiased", "rke_cosine", "kd", "kd_cosine", "vendi_2"]
)
def test_large_sets_are_treated_in_blocks_with_the_same_promise(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_losses, "DENSE_LIMIT", 2)
    assert judged(name, seed=3, most=9) >= 0.99


def test_the_shifted_diagonal_tightens_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, objective = (
        rng.standard_normal((30, 4)),
        gx.KernelDistance(rng.standard_normal((20, 4)), gx.Gaussian(0.7)),
    )
    shifted = gx.keep(X, 8, objective)
    monkeypatch.setattr(sample_losses, "DENSE_LIMIT", 2)
    plain = gx.keep(X, 8, objective)
    assert shifted.loss == pytest.approx(plain.loss, rel=0.02)
    assert shifted.loss_bound > plain.loss_bound + 0.1 * plain.gap


# -- recorded samples --------------------------------------------------------------------------------

WORLDS = {
    "city": "minilm",
    "fashion": "efficientnet-lite0",
    "breeds": "efficientnet-lite0",
    "boots": "efficientnet-lite0",
}


def recorded(world: str, seed: int) -> Any:
    """Draw 300 samples of all arms, scaled to norm 1."""
    path = Path(__file__).parents[2] / "worlds" / world / f"{WORLDS[world]}.npz"
    with np.load(path, allow_pickle=False) as file:
        rows = np.concatenate([file[key].astype(float) for key in file if key != "reference"])
    rows = rows[np.random.default_rng(seed).choice(len(rows), 300, replace=False)]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def versus(world: str, seed: int, *rules: Callable[[Any, int], Any]) -> list[float]:
    """The score of 100 kept of 300, relative to other choices."""
    rows = recorded(world, seed)
    kept = gx.keep(rows, 100, gx.Vendi())
    assert kept.bound is not None
    assert not kept.is_bound_tight
    sets = {rule.__name__: rows[rule(rows, 100)] for rule in rules}
    table = gx.score(sets, gx.Vendi()).arms
    others = [float(table[name]["vendi"]) for name in sets]
    assert max(others) <= kept.bound
    return [float(kept.score) / other for other in others]  # type: ignore[arg-type]


@pytest.mark.drill
@pytest.mark.parametrize("world", WORLDS)
def test_keep_is_not_behind_lazy_greedy(world: str) -> None:
    assert versus(world, 0, lazy_greedy)[0] >= 0.999


@pytest.mark.long
@pytest.mark.parametrize("world", WORLDS)
def test_keep_is_ahead_of_greedy_and_farthest_point_for_twenty_seeds(world: str) -> None:
    for seed in range(20):
        greedy, farthest = versus(world, seed, lazy_greedy, farthest_point)
        assert greedy >= 0.999
        assert farthest > 1
