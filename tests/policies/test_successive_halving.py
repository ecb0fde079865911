"""Successive halving finds the arms that are needed, and does not drop one that clearly is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.policies import Situation
from tests.support.conformance import Matrix

MODES = 24
USEFUL = ("arm 17", "arm 42")

OBJECTIVES: dict[str, Callable[[], gx.Objective]] = {
    "vendi": gx.Vendi,
    "rke": lambda: gx.RKE(gx.Cosine()),
}


def sixty_arms(seed: int) -> dict[str, Matrix]:
    """Two arms cover half of the modes each. The others produce a few of six modes that these also have."""
    rng = np.random.default_rng(seed)
    found = {}
    for k in range(60):
        shares = np.zeros(MODES)
        few = rng.choice([0, 1, 2, 12, 13, 14], int(rng.integers(1, 4)), replace=False)
        shares[few] = rng.uniform(0.2, 1.2, len(few))
        found[f"arm {k}"] = shares / shares.sum()
    found["arm 17"] = np.repeat([1 / 12, 0.0], 12)
    found["arm 42"] = np.repeat([0.0, 1 / 12], 12)
    return found


class Recorded(gx.SuccessiveHalving):
    """Remembers which arms remained after each round."""

    def remaining(self, situation: Situation, model: Any, before: Any) -> Any:
        found = super().remaining(situation, model, before)
        names = {arm for arm, stays in zip(situation.arms, found, strict=True) if stays}
        self.history.append(names)
        return found

    @property
    def history(self) -> list[set[str]]:
        return vars(self).setdefault("_history", [])


def run(
    world: dict[str, Matrix],
    objective: gx.Objective,
    steps: int,
    policy: gx.SuccessiveHalving | None = None,
    seed: int = 0,
) -> tuple[gx.Selector, list[set[str]]]:
    policy = Recorded() if policy is None else policy
    selector = gx.Selector(list(world), objective, policy, seed=seed)
    proceed(selector, world, steps, seed)
    return selector, selector._learner.policy.history


def proceed(selector: gx.Selector, world: dict[str, Matrix], steps: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        [ticket] = selector.ask()
        size = len(world[ticket.arm])
        selector.tell(ticket, np.eye(size)[rng.choice(size, p=world[ticket.arm])])


def assert_finds_the_two(name: str, seed: int) -> None:
    selector, history = run(sixty_arms(seed), OBJECTIVES[name](), 1100, seed=seed)
    assert all(set(USEFUL) <= names for names in history)
    assert history[-1] == set(USEFUL)
    others = [n for arm, n in selector.counts.items() if arm not in USEFUL]
    assert sum(others) < 58 * 10 + 160
    for arm in USEFUL:
        assert selector.targets[arm] == pytest.approx(0.5, abs=0.1)


def test_the_two_useful_of_sixty_arms_remain() -> None:
    assert_finds_the_two("rke", seed=0)


@pytest.mark.drill
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_two_useful_of_sixty_arms_remain_for_every_objective(name: str, seed: int) -> None:
    assert_finds_the_two(name, seed)


@pytest.mark.drill
@pytest.mark.parametrize("seed", range(2))
def test_the_two_useful_arms_are_never_dropped_for_the_frechet_distance(seed: int) -> None:
    # A few samples determine it less well, so that more arms can remain.
    objective = gx.FrechetDistance(np.eye(MODES))
    _, history = run(sixty_arms(seed), objective, 1100, seed=seed)
    assert history
    assert all(set(USEFUL) <= names for names in history)


def own_modes(arms: int) -> dict[str, Matrix]:
    """Every arm has two modes that no other arm has."""
    rows = np.kron(np.eye(arms), [0.5, 0.5])
    return {f"arm {k}": row for k, row in enumerate(rows)}


def with_poor_arms(world: dict[str, Matrix], poor: int = 16) -> dict[str, Matrix]:
    """Add arms that have only one mode, which the first arm also has."""
    size = len(next(iter(world.values())))
    return world | {f"poor {k}": np.eye(size)[0] for k in range(poor)}


def is_poor(arm: str) -> bool:
    return arm.startswith("poor")


def test_arms_that_are_all_needed_all_remain() -> None:
    world = own_modes(12)
    selector, history = run(world, gx.Vendi(), 12 * 45, Recorded(rounds=2))
    assert history
    assert all(names == set(world) for names in history)
    assert min(selector.counts.values()) >= 40


def test_one_of_many_copies_remains() -> None:
    world = {f"copy {k}": np.repeat([1 / 4, 0.0], [4, 4]) for k in range(12)}
    world |= {"other": np.repeat([0.0, 1 / 4], [4, 4]), "poor": np.eye(8)[0]}
    _, history = run(world, gx.RKE(gx.Cosine()), 700, Recorded(rounds=3))
    last = history[-1]
    assert "other" in last
    assert "poor" not in last
    assert 1 <= sum(arm.startswith("copy") for arm in last) <= 6


def test_rounds_double_the_samples_of_the_remaining_arms() -> None:
    world = with_poor_arms(own_modes(4))
    selector, history = run(world, gx.Vendi(), 20 * 10, Recorded(rounds=3))
    assert history == []
    for samples in (20, 40, 80):
        proceed(selector, world, 3 * samples, seed=samples)
        assert min(selector.counts[arm] for arm in own_modes(4)) >= samples
    assert len(history) == 4
    assert sum(n for arm, n in selector.counts.items() if is_poor(arm)) < 16 * 10 + 80
    # After the last round, arms are drawn from the mixture of the remaining ones.
    for arm, target in selector.targets.items():
        assert target == pytest.approx(0.0 if is_poor(arm) else 0.25, abs=0.03)


def test_an_arm_that_is_added_is_tested_like_the_others() -> None:
    world = own_modes(5)
    new = world.pop("arm 4")
    world = with_poor_arms(world)
    selector, history = run(world, gx.Vendi(), 400, Recorded(rounds=2))
    assert not any(map(is_poor, history[-1]))
    selector.add_arm("new")
    proceed(selector, world | {"new": new}, 150, seed=9)
    assert "new" in history[-1]
    assert not any(map(is_poor, history[-1]))
    assert selector.counts["new"] >= 40
    assert selector.targets["new"] > 0.1


def test_without_tolerance_and_with_large_errors_nothing_is_dropped() -> None:
    world = own_modes(3) | {"poor": np.eye(6)[0]}
    _, history = run(world, gx.Vendi(), 200, Recorded(rounds=1, tolerance=0.0, errors=1e6))
    assert all(names == set(world) for names in history)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"samples": 0}, "samples is 0"),
        ({"rounds": -1}, "rounds is -1"),
        ({"tolerance": -0.1}, "tolerance is -0.1"),
        ({"errors": float("nan")}, "errors is nan"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(gx.InputError, match=words):
        gx.SuccessiveHalving(**options)


def test_limits_are_refused() -> None:
    with pytest.raises(gx.InputError, match="SuccessiveHalving does not keep at_least"):
        gx.Selector(["a", "b"], gx.Vendi(), gx.SuccessiveHalving(), at_least={"a": 0.1})


def test_the_round_and_the_remaining_arms_are_saved() -> None:
    world = with_poor_arms(own_modes(3))
    selector = gx.Selector(list(world), gx.Vendi(), gx.SuccessiveHalving(rounds=3))
    proceed(selector, world, 220)
    again = gx.Selector.from_state_dict(copy.deepcopy(selector.state_dict()))
    current, *remaining = selector._learner.notes
    assert 1 <= current <= 3
    assert remaining[:3] == [1.0] * 3
    assert sum(remaining) < 10
    assert again._learner.notes.tolist() == [current, *remaining]
    for each in (selector, again):
        proceed(each, world, 60, seed=3)
    assert again.counts == selector.counts
