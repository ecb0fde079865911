"""The scale of the embeddings does not matter: the same weights, or one sentence if squares underflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import genmix as gx
from genmix.kernels.balls import Balls
from genmix.solvers.newton import bfgs_update

EXPONENTS = (-150, -141, -139, -120, -100, -80, -60, -40, -26, -20, -10, 10, 20, 35, 49, 50)

OBJECTIVES: dict[str, tuple[Callable[[Any], gx.Objective], int]] = {
    "frechet": (gx.FrechetDistance, 2),
    "frechet ddof 1": (lambda reference: gx.FrechetDistance(reference, ddof=1), 2),
    "vendi cosine": (lambda reference: gx.Vendi(), 0),
    "vendi median": (lambda reference: gx.Vendi(kernel=gx.Gaussian()), 0),
    "vendi features": (lambda reference: gx.Vendi(kernel=gx.Gaussian(features=8)), 0),
    "rke median": (lambda reference: gx.RKE(), 0),
    "kd cosine": (lambda reference: gx.KernelDistance(reference, gx.Cosine()), 0),
    "kd median": (gx.KernelDistance, 0),
    "precision": (gx.Precision, 0),
    "density": (gx.Density, 0),
}
"""Name → objective, and the power of the scale with which its score grows."""


def world(samples: int, d: int) -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(1)
    arms = {
        f"a{i}": rng.normal(size=(samples, d)) * rng.uniform(0.5, 1.5, d) + rng.normal(size=d) / 2
        for i in range(3)
    }
    return arms, rng.normal(size=(3 * samples, d))


def attempt(
    arms: dict[str, Any], make: Callable[[Any], gx.Objective], reference: Any
) -> tuple[Any, str]:
    """The best mixture, or the sentence with which it is refused."""
    try:
        return gx.optimal_mixture(arms, make(reference)), ""
    except gx.InputError as error:
        return None, str(error)


@pytest.mark.parametrize(("samples", "d"), [(6, 20), (20, 4)], ids=["fewer than d", "more than d"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_mixture_does_not_depend_on_the_scale(name: str, samples: int, d: int) -> None:
    make, power = OBJECTIVES[name]
    arms, reference = world(samples, d)
    plain = gx.optimal_mixture(arms, make(reference))
    refused = []
    for exponent in EXPONENTS:
        scale = 10.0**exponent
        scaled = {arm: scale * x for arm, x in arms.items()}
        mix, reason = attempt(scaled, make, scale * reference)
        if mix is None:
            assert "varies by only" in reason or "larger than 1e+50" in reason
            refused.append(exponent)
            continue
        assert mix.weights == pytest.approx(plain.weights, abs=1e-5)
        assert float(mix.score) / scale**power == pytest.approx(float(plain.score), rel=1e-9)
        assert 0 <= mix.gap / scale**power <= max(10 * plain.gap, 1e-7 * abs(plain.loss))
    assert set(refused) <= {-150, -141, 50}


def bures(mean: Any, variance: Any, center: Any, width: Any) -> Any:
    """FD of two Gaussians with diagonal covariances, with 50 digits."""
    pairs = zip(mean, variance, center, width, strict=True)
    return sum((m - c) ** 2 + v + w - 2 * mp.sqrt(v * w) for m, v, c, w in pairs)


@pytest.mark.parametrize("exponent", [-130, -100, -26, 0, 45])
def test_the_frechet_distance_of_tiny_embeddings_is_the_one_of_mpmath(exponent: int) -> None:
    """Points on the axes have diagonal covariances, so the distance has a closed form."""
    scale = 10.0**exponent
    lengths = {"a": (3.0, 1.0), "b": (1.0, 2.0)}
    corners = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    arms = {name: scale * corners * np.array(length) for name, length in lengths.items()}
    reference = scale * corners * np.array([2.0, 1.5])
    mix = gx.optimal_mixture(arms, gx.FrechetDistance(reference))
    with mp.workdps(50):
        share = mp.mpf(mix.weights["a"])
        second = [[mp.mpf(float(x)) ** 2 / 2 for x in rows.max(0)] for rows in arms.values()]
        width = [mp.mpf(float(x)) ** 2 / 2 for x in reference.max(0)]

        def distance(alpha: Any) -> Any:
            mixed = [alpha * a + (1 - alpha) * b for a, b in zip(*second, strict=True)]
            return bures([0, 0], mixed, [0, 0], width)

        here = distance(share)
        least = min(distance(mp.mpf(k) / 500) for k in range(501))
        assert float(here / width[0]) == pytest.approx(
            mix.loss / float(width[0]), rel=1e-12, abs=1e-14
        )
        assert here - least <= mix.gap
        assert mix.gap < 1e-7 * scale**2
    assert 0.1 < mix.weights["a"] < 0.9


def test_a_reference_of_one_point_does_not_hide_an_underflow() -> None:
    arms = {"near": np.full((2, 2), 1e-170), "far": np.full((2, 2), 3e-170)}
    with pytest.raises(gx.InputError, match="varies by only 1e-170"):
        gx.optimal_mixture(arms, gx.FrechetDistance(np.zeros((1, 2))))
    arms = {"near": np.full((2, 2), 1e-120), "far": np.full((2, 2), 3e-120)}
    assert gx.optimal_mixture(arms, gx.FrechetDistance(np.zeros((1, 2)))).weights["near"] == 1


@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_arms_that_never_vary_have_a_frechet_distance(constant: float) -> None:
    """All arms are the same point: nothing is left of their covariance, also on a face."""
    reference = np.random.default_rng(0).normal(size=(20, 2))
    for samples in (1, 12):
        arms = {name: np.full((samples, 2), constant) for name in "abc"}
        mix = gx.optimal_mixture(arms, gx.FrechetDistance(reference))
        moved = reference - constant
        expected = float(np.sum(moved.mean(0) ** 2) + np.trace(np.cov(moved.T, ddof=0)))
        assert float(mix.score) == pytest.approx(expected)  # type: ignore[arg-type]
        assert max(mix.leave_one_out.values()) <= mix.gap + 1e-12


@pytest.mark.parametrize(("bandwidth", "word"), [(1e-141, "between"), (1e141, "between")])
def test_a_bandwidth_whose_square_is_not_a_number_is_refused(bandwidth: float, word: str) -> None:
    with pytest.raises(gx.InputError, match=word):
        gx.Gaussian(bandwidth)


def test_samples_too_far_apart_for_the_bandwidth_are_refused() -> None:
    arms = {"a": np.array([[1e49], [-1e49]]), "b": np.array([[0.0], [1.0]])}
    with pytest.raises(gx.InputError, match="pass a larger bandwidth"):
        gx.optimal_mixture(arms, gx.Vendi(kernel=gx.Gaussian(1e-139)))


def test_balls_refuse_neighborhoods_whose_radius_underflows() -> None:
    close = np.arange(6.0)[:, None] * 1e-170
    with pytest.raises(gx.InputError, match="underflow"):
        Balls.around(np.concatenate([close, [[1.0], [2.0]]]), 3)
    identical = np.concatenate([np.zeros((6, 1)), [[1.0], [2.0]]])
    assert float(Balls.around(identical, 3).radii[0]) == 0.0


def test_a_hessian_is_not_updated_with_rounding_errors() -> None:
    """Between identical arms there is no curvature; an update would leave a negative diagonal."""
    rng = np.random.default_rng(0)
    updated = 0
    for _ in range(200):
        scale = float(rng.uniform(0.1, 1))
        hessian = np.full((3, 3), scale) * (1 + 1e-16 * rng.normal(size=(3, 3)))
        step = 10.0 ** rng.uniform(-9, 0) * rng.normal(size=3)
        step -= step.mean()
        change = 1e-17 * rng.normal(size=3)
        found = bfgs_update(hessian, step, change)
        assert np.diag(found).min() >= 0
        updated += found is not hessian
    assert updated < 20


@pytest.mark.parametrize("policy", [gx.MixtureGreedy(), gx.MixtureUCB()])
def test_identical_arms_raise_no_warning(
    policy: gx.Policy, recwarn: pytest.WarningsRecorder
) -> None:
    for seed, samples, d in ((12, 12, 16), (2, 40, 1)):
        x = np.random.default_rng(seed).normal(size=(samples, d))
        objective = gx.RKE(gx.Gaussian(1.0), unbiased=True)
        selector = gx.Selector(["a", "b", "c"], objective, policy, warm_start=2, seed=seed)
        for _ in range(26):
            [ticket] = selector.ask()
            selector.tell(ticket, x[selector.counts[ticket.arm] % samples])
    assert not recwarn.list
