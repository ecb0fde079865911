"""``gx.predict_keep``: known answers, intervals that hold, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import genmix as gx
from genmix.comparison.worlds import load_world
from genmix.offline.growth import Growth

SIZES = np.array([80.0, 100.0, 120.0, 150.0, 176.0])


def growth(score: Any, noise: float = 0.0, kind: Any = "score") -> Growth:
    """Scores that follow a function of the number of samples."""
    rng = np.random.default_rng(0)
    scores = score(SIZES) + noise * rng.standard_normal((4, len(SIZES)))
    return Growth(SIZES, scores, 200, float(score(200.0)), kind)


# -- the fit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [0.1, 0.5, 1.0, 2.0])
def test_a_power_law_is_continued(c: float) -> None:
    def score(n: Any) -> Any:
        return 50 - 40 * (n / 200) ** -c

    gain, deviation = growth(score).gain(200)
    real = score(400.0) - score(200.0)
    assert abs(gain - real) < min(0.1 * real, 2 * deviation)


def test_a_logarithm_is_continued() -> None:
    gain, _ = growth(lambda n: 10 * np.log(n)).gain(200)
    assert gain == pytest.approx(10 * np.log(2), rel=0.1)


def test_no_growth_is_no_gain() -> None:
    gain, deviation = growth(lambda n: 7.0 + 0 * n).gain(10_000)
    assert gain == 0
    assert deviation < 0.1


def test_noise_widens_the_interval_and_so_does_the_distance() -> None:
    def score(n: Any) -> Any:
        return 3 * np.log(n)

    quiet, loud = growth(score, 0.01), growth(score, 0.5)
    assert quiet.gain(100)[1] < loud.gain(100)[1] < loud.gain(400)[1]


# -- known answers -----------------------------------------------------------------------------------


def modes(count: int, n: int, seed: int = 0) -> Any:
    return np.eye(count)[np.random.default_rng(seed).integers(0, count, n)]


def test_nothing_is_left_to_gain_when_every_mode_was_seen_often_enough() -> None:
    found = gx.predict_keep(modes(6, 200), 30, gx.Vendi(), more=100)
    assert (found.gain, found.low) == (0, 0)
    assert found.high == pytest.approx(0, abs=1e-6)
    assert found.curve[-1] == (200, pytest.approx(6))


def test_the_gain_falls_as_more_modes_are_seen() -> None:
    """The gain is at most what is missing to all 24 modes, and it vanishes in the end."""
    gains = []
    for n in (60, 120, 400):
        found = gx.predict_keep(modes(24, n, seed=1), 24, gx.Vendi(), more=n)
        missing = 24 - found.curve[-1][1]
        assert 0 <= found.low <= found.gain <= found.high <= missing + 1e-6
        gains.append(found.gain)
    assert gains[0] > 1 > gains[1] >= gains[2] == 0


def test_a_distance_falls() -> None:
    rng = np.random.default_rng(0)
    X, real = rng.standard_normal((120, 4)) + 0.5, rng.standard_normal((200, 4))
    found = gx.predict_keep(X, 20, gx.FrechetDistance(real), more=80)
    first, last = found.curve[0][1], found.curve[-1][1]
    assert first > last > 0
    assert 0 < found.gain <= last * (1 + 1e-6)
    assert "about −" in str(found)
    assert str(found).endswith(")")


def test_a_sum_is_predicted_in_units_of_the_loss() -> None:
    X = np.random.default_rng(0).standard_normal((90, 5))
    found = gx.predict_keep(
        X, 15, gx.Vendi() + 0.1 * gx.Quality(), 30, quality=np.linspace(0, 1, 90)
    )
    assert (found.name, found.maximise) == ("loss", False)
    assert found.curve[0][1] > found.curve[-1][1]
    assert found.gain > 0


def test_a_share_of_more_samples_is_more_samples() -> None:
    X = np.random.default_rng(0).standard_normal((90, 5))
    found = gx.predict_keep(X, None, gx.RKE(), 60, share=0.2)
    assert (found.count, found.count_after) == (18, 30)
    assert found.low < found.gain < found.high


def test_only_good_samples_count() -> None:
    """Half of the samples are too bad to be kept, so the others decide."""
    X = modes(8, 200)
    quality = (np.arange(200) % 2).astype(float)
    found = gx.predict_keep(X, 16, gx.Vendi(), 50, quality=quality, min_quality=0.5)
    bad = quality < 0.5
    changed = X.copy()
    changed[bad] = np.eye(8)[0]
    assert found == gx.predict_keep(changed, 16, gx.Vendi(), 50, quality=quality, min_quality=0.5)


def test_the_same_seed_yields_the_same_prediction_for_numpy_and_torch() -> None:
    X = np.random.default_rng(0).standard_normal((80, 5))
    first, again = (gx.predict_keep(X, 12, gx.Vendi(), 40, seed=1) for _ in range(2))
    assert first == again
    other = gx.predict_keep(torch.as_tensor(X), 12, gx.Vendi(), 40, seed=1)
    assert other.gain == pytest.approx(first.gain, rel=0.05)
    assert json.loads(json.dumps(first.as_dict()))["gain"] == first.gain


# -- what it refuses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "more", "options", "message"),
    [
        (10, 0, {}, "more is 0; pass a whole number of at least 1."),
        (None, 5, {}, "pass either k or share"),
        (5, 5, {"share": 0.5}, "pass either k or share"),
        (None, 5, {"share": 2}, "share is 2; pass a number between 0 and 1."),
        (30, 5, {}, "40 samples are too few to predict the best 30; generate at least 55 samples"),
        (50, 5, {}, "40 samples are too few to predict the best 50"),
        (5, 5, {"min_quality": 0.5}, "a minimum quality was set"),
    ],
)
def test_bad_arguments(k: Any, more: int, options: dict[str, Any], message: str) -> None:
    X = np.random.default_rng(0).standard_normal((40, 3))
    with pytest.raises(gx.InputError, match=message):
        gx.predict_keep(X, k, gx.Vendi(), more, **options)


# -- predictions against what happened ---------------------------------------------------------------


def backtest(name: str, objective: gx.Objective, k: int, runs: int) -> tuple[Any, Any]:
    """Predict the gain from 300 to 400, 500 and 600 samples; return relative errors and hits."""
    world = load_world(name)
    mixture = gx.optimal_mixture(world.arms, objective)
    errors, hits = [], []
    for seed in range(100, 100 + runs):
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(600, [max(mixture.weights[arm], 0) for arm in world.arms])
        rows = [
            pool[rng.permutation(len(pool))[:count]]
            for pool, count in zip(world.arms.values(), counts, strict=True)
        ]
        X = rng.permutation(np.concatenate(rows))
        real = {n: float(gx.keep(X[:n], k, objective).score) for n in (300, 400, 600)}  # type: ignore[arg-type]
        for n in (400, 600):
            found = gx.predict_keep(X[:300], k, objective, n - 300, seed=seed)
            gain = abs(real[n] - real[300])
            errors.append((found.gain - gain) / gain)
            hits.append(found.low <= gain <= found.high)
    return np.array(errors), np.array(hits)


@pytest.mark.long
@pytest.mark.parametrize("name", ["city", "fashion", "breeds", "boots"])
def test_the_interval_contains_what_happened(name: str) -> None:
    errors, hits = backtest(name, gx.RKE(), 100, runs=12)
    assert np.mean(hits) >= 0.75  # 24 predictions, two of each run; the level is 90%
    assert abs(np.mean(errors)) < 0.3
