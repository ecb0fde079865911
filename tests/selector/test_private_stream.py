"""A seed passed to genmix never shares its random stream with the user's ``default_rng(seed)``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.core.streams import current_version, private_stream, streams_of_version
from genmix.diagnosis.resampling import shuffled_rows
from genmix.kernels import distances
from genmix.kernels.distances import median_distance

SEEDS = range(5)


def told(seed: Any, weights: dict[str, float]) -> gx.Selector:
    """A selector with fixed weights whose warm start is complete."""
    policy = gx.Fixed(weights)
    selector = gx.Selector(list(weights), gx.Vendi(), policy, warm_start=1, seed=seed, draw="iid")
    for k, ticket in enumerate(selector.ask(len(weights))):
        selector.tell(ticket, np.eye(3)[k])
    return selector


@pytest.mark.parametrize("seed", SEEDS)
def test_draws_are_not_correlated_with_the_users_stream(seed: int) -> None:
    selector = told(seed, {"a": 0.5, "b": 0.5})
    drawn = np.array([ticket.arm == "a" for ticket in selector.ask(400)], dtype=float)
    own = np.random.default_rng(seed).random(400)
    # The old draw was own < 0.5, a correlation of −0.86; four standard errors are 0.2.
    assert abs(np.corrcoef(drawn, own)[0, 1]) < 0.2


@pytest.mark.parametrize("seed", SEEDS)
def test_random_features_are_not_the_users_numbers(seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((4, 6))
    frequencies = gx.Gaussian(1.0, features=6, seed=seed).fix_bandwidths([rows]).frequencies
    assert frequencies.shape == (6, 6)
    assert not np.isin(frequencies, rows).any()


def test_the_points_of_the_median_are_not_the_users_permutation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(distances, "BANDWIDTH_POINTS", 20)
    first = np.random.default_rng(0).permutation(200)[:20]
    rows = np.zeros((200, 1))
    rows[first, 0] = np.arange(1.0, 21.0)
    own = np.arange(1.0, 21.0)
    of_first = np.median(np.abs(own[:, None] - own)[np.triu_indices(20, 1)])
    assert median_distance([rows], 0) != of_first


def test_diagnosis_and_comparison_use_their_own_streams() -> None:
    """Trailing zeros do not change a seed: ``default_rng([5, 0, 0])`` is ``default_rng(5)``."""
    same = np.random.default_rng([5, 0, 0]).random()
    assert same == np.random.default_rng(5).random()
    assert private_stream(5, "comparison", 0, 0).random() != same
    users = np.random.default_rng(5).permutation(50)
    assert not np.array_equal(shuffled_rows(50, "a", 5, 0), users)


def test_streams_differ_by_seed_purpose_and_path() -> None:
    streams = [(0, "a"), (1, "a"), (0, "b"), (0, "a", 0), (0, "a", 1), (0, "a", 1, 0)]
    assert len({private_stream(*stream).random() for stream in streams}) == len(streams)
    assert private_stream(3, "a", 1).random() == private_stream(3, "a", 1).random()


def test_a_generator_is_used_as_it_is() -> None:
    one, other = np.random.default_rng(7), np.random.default_rng(7)
    selector = told(one, {"a": 0.5, "b": 0.5})
    expected = ["a" if other.random() < 0.5 else "b" for _ in range(20)]
    assert [ticket.arm for ticket in selector.ask(20)] == expected


@pytest.mark.parametrize("seed", [-1, 1.5, "first"])
def test_a_seed_that_is_not_a_whole_number_is_refused(seed: Any) -> None:
    with pytest.raises(gx.InputError, match="pass a whole number of at least 0"):
        gx.Selector(["a"], gx.Vendi(), seed=seed)


# --- older versions ---------------------------------------------------------------------------------


def test_the_first_version_used_seeds_as_they_are() -> None:
    with streams_of_version(None):
        assert current_version() == 1
        assert private_stream(4, "any").random() == np.random.default_rng(4).random()
        expected = np.random.default_rng([4, 2, 1]).random()
        assert private_stream(4, "any", 2, 1).random() == expected
    assert current_version() == 2


def test_a_state_from_before_continues_with_its_own_streams() -> None:
    """Saved during the warm start, when the frequencies were not drawn yet."""
    objective = gx.Vendi(kernel=gx.Gaussian(1.0, features=3, seed=9))
    with streams_of_version(1):
        selector = gx.Selector(
            ["a", "b"], objective, gx.MixtureGreedy(), warm_start=1, seed=9, draw="iid"
        )
        draws = np.random.default_rng(9)
    state = selector.state_dict()
    assert state.pop("streams") == 1  # older versions did not save it
    again = gx.Selector.from_state_dict(state)
    for k, ticket in enumerate(again.ask(2)):
        again.tell(ticket, np.eye(2)[k])
    frequencies = again.objective.kernel.frequencies  # type: ignore[attr-defined]
    assert np.array_equal(frequencies, np.random.default_rng(9).standard_normal((2, 3)))
    weight = again.weights["a"]
    drawn = ["a" if draws.random() < weight else "b" for _ in range(20)]
    assert [ticket.arm for ticket in again.ask(20)] == drawn
