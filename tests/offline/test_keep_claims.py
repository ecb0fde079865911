"""``gx.keep`` and ``gx.predict_keep``: claims that must be true in unusual cases too."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.objectives import Batch
from genmix.offline import predict_keep as predict_module
from genmix.offline.keep import set_scores
from genmix.offline.keeping import ADVICE, Baselines, advice_for, bound_sentence
from genmix.offline.sample_losses import sample_loss, step_work
from genmix.solvers.sample_loss import LinearSamples
from genmix.solvers.subset import best_subset
from genmix.solvers.subsets import Subsets

# -- predictions -------------------------------------------------------------------------------------


def scarce(good: int, seed: int) -> Any:
    """Quality of 100 samples, of which only a few may be kept."""
    quality = np.zeros(100)
    quality[np.random.default_rng(seed).permutation(100)[:good]] = 1
    return quality


@pytest.mark.parametrize("unbiased", [False, True])
def test_every_subset_has_candidates(unbiased: bool) -> None:
    rng = np.random.default_rng(0)
    X, real = rng.standard_normal((100, 3)), rng.standard_normal((30, 3))
    objective = gx.KernelDistance(real, unbiased=unbiased)
    for seed in range(4):
        options: Any = {"share": 0.3, "min_quality": 0.5, "quality": scarce(5, seed)}
        found = gx.predict_keep(X, None, objective, 25, seed=seed, **options)
        assert np.isfinite([found.gain, found.low, found.high]).all()


def test_too_few_candidates_are_refused() -> None:
    X, real = np.random.default_rng(0).standard_normal((2, 100, 3))
    options: Any = {"share": 0.3, "min_quality": 0.5, "quality": scarce(3, 0)}
    with pytest.raises(gx.InputError, match="only 3 of 100 samples can be kept, which is too few"):
        gx.predict_keep(X, None, gx.KernelDistance(real, unbiased=True), 25, **options)


def test_the_orders_stay_the_same_if_every_sample_is_a_candidate() -> None:
    search: Any = type("Search", (), {"batch": range(50), "is_enough": lambda self, rows: True})()
    found = predict_module._orders(search, 20, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    for order, reverse in (found[:2], found[2:]):
        assert order.tolist() == reverse[::-1].tolist() == rng.permutation(50).tolist()


@pytest.mark.parametrize(
    "objective", [gx.Quality(), gx.Cost(), gx.Quality() + 0.5 * gx.Cost(), -0.5 * gx.Cost()]
)
def test_better_samples_than_those_so_far_are_possible(objective: gx.Objective) -> None:
    """The best quality in hand is no limit; the real gain is that of twice as many samples."""
    rng = np.random.default_rng(0)
    X, quality = rng.standard_normal((400, 2)), rng.standard_normal(400)

    def numbers(n: int) -> Any:
        return {"quality": quality[:n], "cost": np.abs(quality[:n])}

    found = gx.predict_keep(X[:200], 20, objective, 200, **numbers(200))
    now, then = (gx.keep(X[:n], 20, objective, **numbers(n)).loss for n in (200, 400))
    assert 0 <= found.low <= now - then <= found.high
    assert 0 < found.gain < found.high


def test_a_limit_that_holds_for_all_samples_is_not_exceeded() -> None:
    rng = np.random.default_rng(0)
    X, real = rng.standard_normal((2, 200, 2))
    cheap = gx.predict_keep(X, 20, gx.Cost(), 10**6, cost=rng.random(200))
    assert cheap.high <= cheap.curve[-1][1]
    precise = gx.predict_keep(6 * X, 80, gx.Precision(real), 10**6)
    assert 0 < precise.gain <= precise.high <= 1 - precise.curve[-1][1]


def test_what_a_prediction_says() -> None:
    X = np.random.default_rng(0).standard_normal((40, 3))
    one = gx.predict_keep(X, 5, gx.Vendi(), 1)
    assert str(one).startswith("another 1 sample is worth about ")
    with pytest.raises(
        gx.InputError, match=r"^share is 0; pass a number greater than 0 and at most 1\.$"
    ):
        gx.predict_keep(X, None, gx.Vendi(), 5, share=0)


def test_the_number_of_samples_that_a_share_needs_is_true() -> None:
    rng = np.random.default_rng(0)
    objective = gx.FrechetDistance(rng.standard_normal((30, 2)), ddof=1)
    with pytest.raises(gx.InputError, match="at least 125 samples, or keep a larger share") as one:
        gx.predict_keep(rng.standard_normal((40, 2)), None, objective, 5, share=0.02)
    assert "40 samples are too few to predict the best 1;" in str(one.value)
    gx.predict_keep(rng.standard_normal((125, 2)), None, objective, 5, share=0.02)


# -- certificates ------------------------------------------------------------------------------------


def waves(x: Any, y: Any) -> Any:
    return np.cos(3 * np.linalg.norm(x[:, None] - y[None], axis=2))


@pytest.mark.parametrize("size", [30, 2100])
def test_an_indefinite_kernel_has_no_bound(size: int) -> None:
    X = np.random.default_rng(0).standard_normal((size, 2))
    for objective in (gx.RKE(kernel=waves), gx.KernelDistance(X[:20], kernel=waves)):
        with pytest.raises(gx.InputError, match="the kernel is not positive semidefinite"):
            gx.keep(X, 5, objective)


def test_a_loss_below_the_bound_is_an_error_instead_of_a_certificate() -> None:
    class Concave(LinearSamples):
        def value(self, at: Any) -> float:
            return float(at) - 1.0

    with pytest.raises(gx.InputError, match=r"the loss .* of a set is below the bound"):
        best_subset(Concave(np.arange(9.0)), Subsets(9, 3))


@pytest.mark.parametrize(
    "objective",
    [
        gx.Vendi(),
        gx.Vendi(order=2, kernel=gx.Gaussian(1.0)),
        gx.Vendi(kernel=gx.Gaussian(1.0)) + 0.5 * gx.Cost(),
        gx.RKE(kernel=gx.Gaussian(features=16)),
        gx.KernelDistance(np.eye(8)),
        gx.FrechetDistance(np.eye(8)),
    ],
)
def test_the_work_of_a_step_is_known_before_the_loss_is_set_up(objective: gx.Objective) -> None:
    X = np.random.default_rng(0).standard_normal((200, 8))
    batch = Batch(X, None, np.ones(200))
    work = sample_loss(objective.fix_bandwidths([X]), batch, Subsets(200, 20)).loss.work
    assert step_work(objective, 200, 8) + 5e6 >= work  # 5e6 stands for the time that calls take


# -- sentences ---------------------------------------------------------------------------------------


def sentence(batch: Batch, objective: gx.Objective, k: int, **options: Any) -> str:
    candidates = options.pop("candidates", np.arange(len(batch)))
    return bound_sentence(Baselines.of(batch, objective, k).keep(candidates, **options).as_dict())


def stop(_: Any) -> None:
    raise KeyboardInterrupt


def test_a_bound_is_tight_only_if_it_is_nearly_reached() -> None:
    batch = Batch(np.random.default_rng(0).standard_normal((120, 3)))
    assert "tight" in sentence(batch, gx.Vendi(), 30)
    text = sentence(batch, gx.Vendi(), 30, progress=stop)
    assert re.search(
        r" The kept samples are 0\.\d+ away from this bound; the search was interrupted\.$", text
    )
    plain = Baselines.of(batch, gx.Vendi(), 30).keep(np.arange(120)).as_dict()
    scores = {"vendi": plain["scores"]["vendi"] | {"value": 2.5}}
    far = bound_sentence(plain | {"scores": scores, "random_scores": {"vendi": {"mean": 1.5}}})
    assert plain["is_bound_tight"]
    assert far.endswith(
        " The kept samples are 0.5 away from this bound; random sets are 1 away from the kept samples."
    )


def test_the_bound_is_for_the_choices_that_are_allowed() -> None:
    rng = np.random.default_rng(0)
    X = np.eye(4)[np.r_[np.zeros(30, int), rng.integers(0, 4, 30)]]
    arms, options = ["a"] * 30 + ["b"] * 30, {"at_least": {"a": 8}}
    found = gx.keep(X, 10, gx.Vendi(), groups=arms, **options)
    free = gx.keep(X, 10, gx.Vendi())
    assert float(free.score) > found.bound  # type: ignore[arg-type, operator]
    assert "no other choice of 10 samples that satisfies the counts of the groups" in str(found)
    assert "no other choice of 10 samples scores" in str(free)
    text = sentence(Batch(X), gx.Vendi(), 10, arms=arms, at_least=3)
    assert text.startswith("No other choice of 10 samples that satisfies the counts per arm scores")
    text = sentence(Batch(X), gx.Vendi(), 10, candidates=np.arange(30))
    assert text.startswith("No other choice of 10 samples of sufficient quality scores better")
    assert sentence(Batch(X), gx.Vendi(), 10).startswith("No other choice of 10 samples scores")


@pytest.mark.parametrize("ddof", [0, 1])
def test_the_bound_of_a_distance_is_not_negative(ddof: int) -> None:
    X, real = np.random.default_rng(0).standard_normal((2, 40, 2))
    for objective in (gx.FrechetDistance(real, ddof=ddof), gx.KernelDistance(real)):
        found = gx.keep(X, 12, objective)
        assert found.bound is not None
        assert 0 <= found.bound <= float(found.score)  # type: ignore[arg-type]


def test_a_set_without_quality_has_an_infinite_loss() -> None:
    X = np.eye(4)
    loss, score = set_scores(gx.QualityVendi(), Batch(X, np.zeros(4)), None)
    assert (loss, float(score)) == (np.inf, 0.0)  # type: ignore[arg-type]
    found = gx.keep(X, 2, gx.QualityVendi(), quality=np.zeros(4))
    assert (float(found.score), found.bound, found.loss) == (0.0, 0.0, np.inf)  # type: ignore[arg-type]
    assert "reach this bound" in sentence(Batch(X, np.zeros(4)), gx.QualityVendi(), 2)
    both = gx.QualityVendi() + gx.Vendi()
    assert "the kept samples have infinity" in sentence(Batch(X, np.zeros(4)), both, 2)


def test_advice_fits_the_objective() -> None:
    real = np.eye(8)
    assert advice_for(gx.Vendi()) == advice_for(gx.RKE() + 0.1 * gx.Cost()) == ADVICE
    assert advice_for(gx.FrechetDistance(real)) is advice_for(gx.KernelDistance(real)) is None
    assert advice_for(gx.Vendi() + gx.Quality()) == (
        "give the terms for fidelity more weight in the objective"
    )


@pytest.mark.parametrize("unbiased", [gx.KernelDistance(np.eye(3), unbiased=True), None])
def test_fewer_samples_than_the_objective_needs_are_a_problem(unbiased: Any) -> None:
    objective = unbiased or gx.FrechetDistance(np.eye(3), ddof=1)
    with pytest.raises(gx.InputError, match="only 1 sample would be kept, but the objective needs"):
        Baselines.of(Batch(np.eye(3)), objective, 1)
