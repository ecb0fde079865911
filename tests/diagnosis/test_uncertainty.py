"""Intervals of the weights and of the score, on worlds with known optima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.diagnosis.bootstrap import bootstrap
from genmix.objectives import Batch
from genmix.offline.mixture import best_mixture

World = tuple[dict[str, np.ndarray], dict[str, np.ndarray], gx.Objective]
"""The populations, samples from them, and the objective."""


def drawn(populations: list[np.ndarray], low: int, high: int, rng: Any) -> tuple[Any, Any]:
    """Return the populations, and samples of different sizes from them, with replacement."""
    arms = {f"arm {i}": rows for i, rows in enumerate(populations)}
    samples = {
        name: rows[rng.integers(0, len(rows), int(rng.integers(low, high)))]
        for name, rows in arms.items()
    }
    return arms, samples


def modes(seed: int) -> World:
    """One-hot modes: the Vendi score is the exponential of the Shannon entropy."""
    rng = np.random.default_rng([seed, 1])
    size, m = int(rng.integers(6, 20)), int(rng.integers(3, 6))
    shares = [rng.dirichlet(np.full(size, rng.choice([0.2, 0.5, 1.0]))) for _ in range(m)]
    populations = [np.repeat(np.eye(size), np.round(1000 * s).astype(int), axis=0) for s in shares]
    return *drawn(populations, 60, 600, rng), gx.Vendi()


def gaussians(seed: int) -> World:
    """Gaussian arms and the Fréchet distance, which depends only on means and covariances."""
    rng = np.random.default_rng([seed, 2])
    d, m = int(rng.integers(2, 9)), int(rng.integers(3, 6))
    populations = []
    for _ in range(m):
        spread = rng.normal(size=(d, d)) * 0.5 / np.sqrt(d) + np.diag(rng.uniform(0.3, 1, d))
        populations.append(rng.normal(size=d) * 0.7 + rng.normal(size=(1000, d)) @ spread)
    return *drawn(populations, 60, 600, rng), gx.FrechetDistance(rng.normal(size=(1000, d)))


def clouds(seed: int) -> World:
    """Clouds on the sphere, for the Vendi score with a cosine kernel."""
    rng = np.random.default_rng([seed, 3])
    d, m = int(rng.integers(4, 16)), int(rng.integers(3, 6))
    populations = [
        rng.normal(size=d) * 0.6 + rng.normal(size=(1000, d)) @ rng.normal(size=(d, d)) / np.sqrt(d)
        for _ in range(m)
    ]
    return *drawn(populations, 60, 600, rng), gx.Vendi()


def distances(seed: int) -> World:
    """Gaussian arms and the kernel distance, a quadratic loss whose bias is known."""
    rng = np.random.default_rng([seed, 4])
    m = int(rng.integers(3, 6))
    populations = [
        rng.normal(size=3) * 0.7 + rng.normal(size=(300, 3)) * rng.uniform(0.4, 1.2)
        for _ in range(m)
    ]
    reference = rng.normal(size=(200, 3))
    return *drawn(populations, 60, 300, rng), gx.KernelDistance(reference, gx.Gaussian(1.0))


WORLDS: list[Callable[[int], World]] = [modes, gaussians, clouds, distances]


def coverage(make: Callable[[int], World], seeds: range) -> tuple[list[bool], list[bool]]:
    """Return, for weights between 0.05 and 0.95 and for weights of 0, whether the intervals cover them."""
    inner, zero = [], []
    for seed in seeds:
        populations, samples, objective = make(seed)
        true = gx.optimal_mixture(populations, objective).weights
        found = gx.optimal_mixture(samples, objective).intervals().weights
        for name, weight in true.items():
            low, high = found[name]
            covered = low - 1e-6 <= weight <= high + 1e-6
            if 0.05 <= weight <= 0.95:
                inner.append(covered)
            elif weight < 1e-6:
                zero.append(covered)
    return inner, zero


@pytest.mark.long
def test_the_intervals_cover_the_optimum_of_200_worlds() -> None:
    inner, zero = [], []
    for make in WORLDS:
        more = coverage(make, range(50))
        inner += more[0]
        zero += more[1]
    assert len(inner) > 500
    assert len(zero) > 50
    assert 0.85 <= np.mean(inner) <= 0.95
    assert np.mean(zero) >= 0.85


def test_the_intervals_cover_the_optimum() -> None:
    """A small version of the drill."""
    parts = [coverage(make, range(100, 103)) for make in WORLDS]
    inner, zero = ([hit for part in parts for hit in part[i]] for i in (0, 1))
    assert len(inner) > 30
    assert np.mean(inner) >= 0.75
    assert np.mean(zero) >= 0.6


# -- interchangeable arms ----------------------------------------------------------------------------


def with_copies(seed: int, d: int, copies: int = 2) -> tuple[dict[str, np.ndarray], gx.Objective]:
    """Several samples of one generator, and two other generators."""
    rng = np.random.default_rng([seed, 5])
    spreads = [rng.normal(size=(d, d)) / np.sqrt(d) for _ in range(3)]
    means = [rng.normal(size=d) * 0.6 for _ in range(3)]
    sources = [0] * copies + [1, 2]
    arms = {
        f"arm {i}": means[k] + rng.normal(size=(int(rng.integers(60, 400)), d)) @ spreads[k]
        for i, k in enumerate(sources)
    }
    return arms, gx.Vendi() if seed % 2 else gx.FrechetDistance(rng.normal(size=(1000, d)))


def called(seeds: range, d: int) -> tuple[list[bool], int]:
    """Return whether the copies are called interchangeable where they have weight, and the other calls."""
    hits, others = [], 0
    for seed in seeds:
        arms, objective = with_copies(seed, d)
        found = gx.optimal_mixture(arms, objective).intervals()
        if max(found.weights["arm 0"][1], found.weights["arm 1"][1]) < 0.05:
            continue
        hits.append(any({"arm 0", "arm 1"} <= set(group) for group in found.interchangeable))
        others += any(set(group) & {"arm 2", "arm 3"} for group in found.interchangeable)
    return hits, others


@pytest.mark.long
@pytest.mark.parametrize("d", [6, 48])
def test_copies_are_interchangeable_and_other_arms_are_not(d: int) -> None:
    hits, others = called(range(40), d)
    assert len(hits) > 30
    assert np.mean(hits) >= 0.9
    assert others <= 4


def test_two_samples_of_one_generator() -> None:
    """Bias makes both weights look precise on these samples; the intervals show that neither is."""
    arms, objective = with_copies(5, 48)
    mix = gx.optimal_mixture(arms, objective)
    found = mix.intervals()
    assert min(mix.weights["arm 0"], mix.weights["arm 1"]) > 0.05
    assert found.interchangeable == (("arm 0", "arm 1"),)
    low, high = found.together[0]
    assert high - low < 0.1
    for name in ("arm 0", "arm 1"):
        assert found.weights[name] == (0.0, high)
    assert "arm 0 and arm 1 are interchangeable" in found.sentences[0]
    assert found.sentences[0] in str(found)


def test_three_samples_of_one_generator() -> None:
    arms, objective = with_copies(3, 12, copies=3)
    found = gx.optimal_mixture(arms, objective).intervals()
    assert found.interchangeable == (("arm 0", "arm 1", "arm 2"),)


def test_a_linear_objective_with_equal_means() -> None:
    rng = np.random.default_rng(0)
    arms = {name: np.ones((200, 1)) for name in "abc"}
    quality = {"a": rng.normal(1, 1, 200), "b": rng.normal(1, 1, 200), "c": rng.normal(0, 1, 200)}
    found = gx.optimal_mixture(arms, gx.Quality(), quality).intervals()
    assert found.interchangeable == (("a", "b"),)
    assert found.weights["c"] == (0.0, 0.0)
    assert found.together[0] == pytest.approx((1.0, 1.0), abs=1e-12)


# -- the score ---------------------------------------------------------------------------------------


def test_the_interval_of_the_score_covers_other_samples() -> None:
    """A mean has a known standard error: the interval is 1.645 of them to either side."""
    rng = np.random.default_rng(1)
    quality = {"a": rng.normal(3.0, 2.0, 400)}
    mix = gx.optimal_mixture({"a": np.ones((400, 1))}, gx.Quality(), quality)
    low, high = mix.intervals(2000).score
    error = np.std(quality["a"], ddof=1) / 20
    assert low == pytest.approx(float(mix.score) - 1.645 * error, abs=0.15 * error)
    assert high == pytest.approx(float(mix.score) + 1.645 * error, abs=0.15 * error)


@pytest.mark.parametrize("kind", ["vendi", "rke", "frechet"])
def test_the_width_is_that_of_many_samples(kind: str) -> None:
    """The judge draws new samples many times and scores the same mixture."""
    rng = np.random.default_rng(2)
    shares = [rng.dirichlet(np.ones(6)) for _ in range(2)]
    objective = {
        "vendi": gx.Vendi(),
        "rke": gx.RKE(gx.Cosine()),
        "frechet": gx.FrechetDistance(np.repeat(np.eye(6), [9, 4, 3, 2, 1, 1], axis=0)),
    }[kind]

    def sample() -> dict[str, np.ndarray]:
        return {f"{i}": np.eye(6)[rng.choice(6, 300, p=p)] for i, p in enumerate(shares)}

    mix = gx.optimal_mixture(sample(), objective)
    low, high = mix.intervals().score
    others = [
        float(gx.score(sample(), objective, weights=mix.weights).mixture[objective.name])
        for _ in range(150)
    ]
    expected = np.diff(np.quantile(others, [0.05, 0.95]))[0]
    assert high - low == pytest.approx(expected, rel=0.35)


def test_a_sum_has_one_interval_per_term() -> None:
    rng = np.random.default_rng(3)
    arms = {n: np.eye(4)[rng.choice(4, 60, p=p)] for n, p in (("a", [0.7, 0.3, 0, 0]), ("b", None))}
    objective = gx.Vendi() + 0.5 * gx.Quality()
    quality = {name: rng.normal(size=60) for name in arms}
    mix = gx.optimal_mixture(arms, objective, quality)
    found = mix.intervals()
    assert list(found.score) == list(mix.score)
    for name, score in mix.score.items():
        low, high = found.score[name]
        assert low < float(score) < high


# -- the interface -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mix() -> gx.Mixture:
    return gx.optimal_mixture(modes(0)[1], gx.Vendi())


def test_the_same_seed_gives_the_same_intervals(mix: gx.Mixture) -> None:
    steps: list[tuple[int, int]] = []
    first = mix.intervals(50, seed=3, progress=lambda done, total: steps.append((done, total)))
    assert mix.intervals(50, seed=3) == first
    assert mix.intervals(50, seed=4) != first
    assert [done for done, _ in steps] == list(range(1, len(steps) + 1))
    assert {total for _, total in steps} == {len(steps)}


def test_the_weights_are_in_their_intervals_and_a_higher_level_is_wider(mix: gx.Mixture) -> None:
    narrow, wide = mix.intervals(50, level=0.5), mix.intervals(50, level=0.95)
    for name, weight in mix.weights.items():
        low, high = narrow.weights[name]
        assert 0 <= wide.weights[name][0] <= low <= weight <= high <= wide.weights[name][1] <= 1
    assert wide.level == 0.95
    assert wide.replicates == 50


def test_progress_can_stop_the_work(mix: gx.Mixture) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mix.intervals(progress=stop)


def test_the_first_order_equals_computing_every_replicate() -> None:
    """The judge computes the statistics of resamples and the gradient of their loss."""
    _, samples, objective = clouds(7)
    mix = gx.optimal_mixture(samples, objective)
    alpha = np.array(list(mix.weights.values()))
    batches = [Batch(rows) for rows in samples.values()]
    found = bootstrap(batches, mix.objective, alpha, 200, 0)
    rng, gradients = np.random.default_rng(0), []
    for _ in range(200):
        tally = mix.objective.tally(len(batches), batches[0].embeddings)
        for arm, batch in enumerate(batches):
            rows = rng.integers(0, len(batch), len(batch))
            tally.add(arm, Batch(batch.embeddings[rows]))
        gradient = tally.loss(range(len(batches))).expand(alpha).gradient
        gradients.append(gradient - gradient @ alpha)
    ours, theirs = found.gradients.std(axis=0), np.std(gradients, axis=0)
    assert ours == pytest.approx(theirs, rel=0.25)


def test_what_is_refused(mix: gx.Mixture) -> None:
    with pytest.raises(gx.InputError, match="replicates is 5"):
        mix.intervals(5)
    with pytest.raises(gx.InputError, match="level is 1"):
        mix.intervals(level=1.0)
    few = gx.optimal_mixture({"a": np.eye(3)[:2], "b": np.repeat(np.eye(3), 3, 0)}, gx.Vendi())
    with pytest.raises(gx.InputError, match="arm 'a' has 2 samples; intervals need at least 5"):
        few.intervals()
    arms = {"a": np.repeat(np.eye(3), 3, axis=0)}
    with pytest.raises(gx.InputError, match="order infinity"):
        gx.optimal_mixture(arms, gx.Vendi(order=np.inf)).intervals()
    selector = gx.Selector(["a", "b"], gx.Vendi(), warm_start=5, seed=0)
    for ticket in selector.ask(10):
        selector.tell(ticket, np.eye(3)[ticket.id % 3])
    with pytest.raises(gx.InputError, match="were not kept"):
        best_mixture(selector.pool()).intervals()


def test_the_intervals_stay_within_limits() -> None:
    _, samples, objective = modes(2)
    first, second, *_ = samples
    limits = {"at_least": {first: 0.2}, "at_most": {second: 0.1}}
    found = gx.optimal_mixture(samples, objective, **limits).intervals(50)
    assert found.weights[first][0] >= 0.2 - 1e-9
    assert found.weights[second][1] <= 0.1 + 1e-9
    without = gx.optimal_mixture(samples, objective, at_most={second: 0.0}).intervals(50)
    assert without.weights[second] == (0.0, 0.0)
