"""Large batches are added in parts, and scores are read without factoring a kernel matrix."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.kernels.balls import Balls, scores_against
from genmix.objectives import moments, vendi
from tests.support.helpers import loss_of

RNG = np.random.default_rng(5)
D = 6


def rows(n: int, spread: float = 1.0) -> Any:
    scales = np.geomspace(1.0, spread, D)
    return RNG.normal(size=(n, D)) * scales + 0.3


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6])  # the last one is ill-conditioned
def test_the_frechet_distance_of_a_large_batch_is_that_of_its_parts(
    spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, fake = rows(40, spread), rows(500, spread)
    objective = gx.FrechetDistance(real)
    small = float(gx.score({"a": fake}, objective).pooled["frechet_distance"])  # one part
    monkeypatch.setattr(moments, "BLOCK_BYTES", 70 * 8 * D)
    parts = float(gx.score({"a": fake}, objective).pooled["frechet_distance"])
    monkeypatch.setattr("genmix.objectives.frechet.MANY_ROWS", 10**9)  # rotates rows, not sums
    exact = float(gx.score({"a": fake}, objective).pooled["frechet_distance"])
    noise = 1e-10 * float(np.sum(np.var(real, axis=0)))  # eigenvalues of products of covariances
    assert small == pytest.approx(exact, rel=1e-11, abs=noise)
    assert parts == pytest.approx(exact, rel=1e-11, abs=noise)


def test_vendi_of_a_large_batch_is_that_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = rows(500)
    whole = gx.optimal_mixture({"a": fake, "b": fake[:90] ** 2}, gx.Vendi())
    monkeypatch.setattr(moments, "BLOCK_BYTES", 33 * 8 * D)
    parts = gx.optimal_mixture({"a": fake, "b": fake[:90] ** 2}, gx.Vendi())
    assert parts.weights == pytest.approx(whole.weights, rel=1e-9)
    assert float(parts.score) == pytest.approx(float(whole.score), rel=1e-12)


@pytest.mark.parametrize("dimension", [D, 1024, 2048])
def test_blocks_of_random_features_are_small(dimension: int) -> None:
    """Computing the features of a block takes several times its memory."""
    x = np.ones((20_000, dimension))
    objective = gx.RKE(gx.Gaussian(1.0, features=512)).fix_bandwidths([x[:2]])
    tally: Any = objective.tally(1, x)
    tracemalloc.start()
    try:
        blocks = [block.nbytes for block in tally._blocks(x, tally._transform)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(blocks) == 8 * 20_000 * 1024
    assert max(blocks) <= moments.BLOCK_BYTES
    assert peak <= 6 * moments.BLOCK_BYTES


def test_blocks_in_many_dimensions_have_bounded_memory() -> None:
    x = np.ones((3000, 3000))
    tally: Any = gx.Vendi().tally(1, x)
    blocks = [block.nbytes for block in tally._blocks(x, tally._transform)]
    assert moments.BLOCK_BYTES < max(blocks) <= moments.WIDE_BLOCK_BYTES


def test_a_million_equal_rows_have_the_exact_mean() -> None:
    """A sum over too many rows at once would be wrong by 1e-12."""
    objective = gx.FrechetDistance((np.zeros(2), np.eye(2), None))
    found = gx.score({"a": np.full((1_000_000, 2), 0.1)}, objective)
    assert float(found.pooled["frechet_distance"]) == pytest.approx(2.02, rel=2e-14)


class Shifted(gx.Cosine):
    """A kernel with a feature map of its own."""

    def feature_map(self, x: Any) -> Any:
        return super().feature_map(x + 5)


def test_the_feature_map_of_a_subclass_is_used() -> None:
    arms = {"a": rows(300), "b": rows(200)}
    shifted = {arm: x + 5 for arm, x in arms.items()}
    found = gx.optimal_mixture(arms, gx.Vendi(kernel=Shifted()))
    expected = gx.optimal_mixture(shifted, gx.Vendi(kernel=gx.Cosine()))
    assert float(found.score) == pytest.approx(float(expected.score), rel=1e-12)


@pytest.mark.parametrize("objective", [gx.Vendi(), gx.FrechetDistance(np.eye(D))], ids=str)
def test_a_loss_is_freed_with_its_last_reference(objective: gx.Objective) -> None:
    """A cycle would keep large arrays until the garbage collector runs, which does not know their size."""
    loss: Any = loss_of(objective, [rows(3), rows(2)])
    loss.expand(np.full(2, 0.5))
    moments_alive = weakref.ref(loss.moments)
    gc.disable()
    try:
        del loss
        assert moments_alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("order", [1.0, 1.4, 2.0, np.inf])
def test_the_score_of_equally_weighted_samples_needs_no_factor(
    order: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = [rows(9), np.repeat(rows(4), 2, axis=0)]  # the second one has duplicates
    weights = [9 / 17, 8 / 17]
    loss = loss_of(gx.Vendi(order, gx.Gaussian(1.0)), arms)
    factored: Any = loss_of(gx.Vendi(order, gx.Gaussian(1.0)), arms)
    expected = factored.expand(np.array(weights)).value

    def fail(*_: Any) -> Any:
        raise AssertionError("a score must not factor the kernel matrix")

    monkeypatch.setattr(vendi, "gram_factor", fail)
    assert loss.value(np.array(weights)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("weights", [[9 / 17, 8 / 17], [0.2, 0.8], [0.0, 1.0]])
def test_a_score_does_not_depend_on_what_was_computed_before(weights: list[float]) -> None:
    arms, objective = [rows(9), rows(8)], gx.Vendi(kernel=gx.Gaussian(1.0))
    first, second = loss_of(objective, arms), loss_of(objective, arms)
    second.expand(np.full(2, 0.5))
    assert first.value(np.array(weights)) == second.value(np.array(weights))


def test_a_small_order_uses_the_factor() -> None:
    loss: Any = loss_of(gx.Vendi(0.3, gx.Gaussian(1.0)), [rows(5), rows(5)])
    loss.value(np.full(2, 0.5))
    assert loss.moments._factored is not None


@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_neighborhood_scores_do_not_depend_on_blocks(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prdc = pytest.importorskip("prdc")
    pairs = [(rows(60), rows(50))]
    pairs += [(np.round(real, 1), np.round(fake, 1)) for real, fake in pairs]  # with ties
    whole = [scores_against(Balls.around(real, 4), fake) for real, fake in pairs]
    monkeypatch.setattr("genmix.kernels.balls.BLOCK_BYTES", 8 * 60 * block)
    assert [scores_against(Balls.around(real, 4), fake) for real, fake in pairs] == whole
    # prdc breaks ties by rounding errors, so it can judge only the first pair.
    assert whole[0] == pytest.approx(prdc.compute_prdc(*pairs[0], 4), abs=1e-12)
