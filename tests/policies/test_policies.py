"""The suite that every policy passes, and each policy's own formula computed a second time."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import genmix as gx
from genmix.core.description import from_plain, to_plain
from genmix.objectives import Batch
from genmix.policies import Decision, Situation
from tests.support.conformance import (
    ARMS,
    POLICIES,
    Matrix,
    assert_plain,
    assert_same_bits,
    public,
    through_files,
)

every_policy = pytest.mark.parametrize("name", POLICIES)

DIMENSION = 4
REFERENCE = np.random.default_rng(99).standard_normal((40, DIMENSION))
KD = gx.KernelDistance(REFERENCE, gx.Gaussian(1.5))


def sample(arm: str, number: int) -> dict[str, Any]:
    """The sample of an arm's ``number``-th draw, independent of who draws it."""
    index = "abcdefgh".index(arm)
    rng = np.random.default_rng([index, number])
    scale = np.roll(np.linspace(0.5, 1.5, DIMENSION), index)
    shift = 0.8 * np.roll(np.eye(DIMENSION)[0], index)
    return {
        "embedding": shift + scale * rng.standard_normal(DIMENSION),
        "quality": float(rng.uniform(0.1, 1.0)),
        "cost": float(rng.uniform(0.0, 2.0)),
    }


class Bench:
    """A selector, and the samples that were told to it."""

    def __init__(self, selector: gx.Selector, told: dict[str, list[Any]] | None = None) -> None:
        self.selector = selector
        self.told = told or {}
        self.path: list[tuple[str, list[float]]] = []

    def tell(self, ticket: gx.Ticket) -> None:
        drawn = self.told.setdefault(ticket.arm, [])
        given = sample(ticket.arm, len(drawn))
        drawn.append(given)
        self.selector.tell(ticket, **given)

    def ask(self, n: int = 1) -> list[gx.Ticket]:
        """Ask with prompts, which most policies ignore; they depend only on the tickets' ids."""
        rng = np.random.default_rng([17, self.selector._next_id])
        prompts, references = rng.standard_normal((n, 2)), rng.standard_normal((n, DIMENSION))
        return self.selector.ask(n, prompt=prompts, reference=references)

    def step(self) -> str:
        (ticket,) = self.ask()
        self.tell(ticket)
        self.path.append((ticket.arm, list(self.selector.weights.values())))
        return ticket.arm

    def run(self, steps: int) -> Bench:
        for _ in range(steps):
            self.step()
        return self

    def rows(self, arm: str) -> Matrix:
        return np.array([given["embedding"] for given in self.told[arm]])

    def counts(self, arms: Sequence[str] = ARMS) -> Matrix:
        return np.array([len(self.told[arm]) for arm in arms])

    def resumed(self, folder: Path) -> Bench:
        state = through_files(self.selector.state_dict(), folder)
        return Bench(gx.Selector.from_state_dict(state), copy.deepcopy(self.told))


def start(
    name: str, arms: Sequence[str] = ARMS, objective: gx.Objective | None = None, **options: Any
) -> Bench:
    if objective is None:
        objective = gx.FrechetDistance(REFERENCE)
    options = {"warm_start": 3, "seed": 7} | options
    return Bench(gx.Selector(arms, objective, POLICIES[name](arms), **options))


def assert_feasible(selector: gx.Selector) -> None:
    for given in (selector.weights, selector.mixture):
        weights = np.array(list(given.values()))
        assert tuple(given) == selector.arms
        assert np.all(np.isfinite(weights))
        assert not np.any(np.signbit(weights))
        assert abs(math.fsum(weights) - 1) <= 1e-12
    assert selector.gap >= 0


# -- the list ----------------------------------------------------------------------------------------


def test_every_public_policy_is_listed() -> None:
    assert public(gx.Policy) == {type(make(ARMS)) for make in POLICIES.values()}


@every_policy
def test_a_policy_is_an_immutable_description(name: str) -> None:
    policy, same = POLICIES[name](ARMS), POLICIES[name](ARMS)
    assert type(policy).__name__ in str(policy)
    assert policy == same
    assert hash(policy) == hash(same)
    assert policy not in [POLICIES[other](ARMS) for other in POLICIES if other != name]
    plain = to_plain(policy)
    assert_plain(plain)
    assert from_plain(plain) == policy
    for field in dataclasses.fields(policy):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(policy, field.name, None)


def test_a_policy_outside_its_published_ground_says_so() -> None:
    quadratic = KD + 0.5 * gx.Quality()
    assert gx.MixtureUCB().label(quadratic) == "MixtureUCB"
    assert gx.MixtureUCB().label(gx.RKE()) == "MixtureUCB"
    assert gx.MixtureUCB().label(quadratic + gx.Vendi()) == "MixtureUCB (extended)"
    assert gx.MixtureUCB().label(gx.FrechetDistance(REFERENCE)) == "MixtureUCB (extended)"
    assert gx.FrechetUCB().label(gx.FrechetDistance(REFERENCE)) == "FrechetUCB (as published)"
    assert gx.MixtureGreedy().label(gx.Vendi()) == "MixtureGreedy"
    assert "extended" in repr(gx.Selector(ARMS, gx.Vendi(), gx.MixtureUCB()))


# -- what every policy does --------------------------------------------------------------------------


@pytest.mark.parametrize("draw", ["iid", "tracking"])
@every_policy
def test_weights_are_feasible_to_the_bit_at_every_step(name: str, draw: str) -> None:
    bench = start(name, draw=draw, resolve_growth=0.0)
    assert_feasible(bench.selector)
    for _ in range(40):
        targets = bench.selector.targets
        arm = bench.step()
        assert_feasible(bench.selector)
        if bench.selector.counts[arm] > 3:
            assert targets[arm] > 0
    assert sum(bench.selector.counts.values()) == 40


OTHER_OBJECTIVES: dict[str, Callable[[], gx.Objective]] = {
    "kd": lambda: gx.KernelDistance(REFERENCE),
    "vendi_infinity": lambda: gx.Vendi(math.inf),
    "rke_unbiased": lambda: gx.RKE(unbiased=True),
    "quality_vendi": lambda: gx.QualityVendi(),
    "sum": lambda: gx.Vendi() + 0.3 * gx.Precision(REFERENCE) + 0.01 * gx.Cost(),
    "linear": lambda: gx.Quality() + 0.5 * gx.Cost(),
}


@pytest.mark.parametrize("objective", OTHER_OBJECTIVES)
@pytest.mark.parametrize("name", [name for name in POLICIES if "frechet" not in name])
def test_every_policy_works_with_every_kind_of_objective(name: str, objective: str) -> None:
    bench = start(name, objective=OTHER_OBJECTIVES[objective]())
    for _ in range(25):
        bench.step()
        assert_feasible(bench.selector)
    assert np.isfinite(bench.selector.gap) or objective == "quality_vendi"


@every_policy
def test_the_warm_start_is_a_round_robin_with_uniform_weights(name: str) -> None:
    bench = start(name)
    asked = []
    for _ in range(9):
        selector = bench.selector
        assert list(selector.weights.values()) == [1 / 3] * 3
        assert selector.gap == math.inf
        assert selector.score is None
        assert selector.pooled_score is None
        asked.append(bench.step())
    assert asked == list(ARMS) * 3
    assert bench.selector.gap < math.inf
    assert bench.selector.score is not None
    assert bench.selector.pooled_score is not None


@every_policy
def test_the_warm_start_counts_what_is_in_flight_and_what_failed(name: str) -> None:
    bench = start(name)
    tickets = bench.ask(8)
    assert [t.arm for t in tickets] == [*ARMS, *ARMS, "a", "b"]
    bench.selector.fail(tickets[1])
    bench.selector.fail(tickets[4])
    assert [t.arm for t in bench.ask(3)] == ["b", "b", "c"]
    for ticket in bench.selector.in_flight:
        assert bench.selector.gap == math.inf
        bench.tell(ticket)
    assert list(bench.selector.counts.values()) == [3, 3, 3]
    assert bench.selector.gap < math.inf


@pytest.mark.parametrize("draw", ["iid", "tracking"])
@pytest.mark.parametrize("steps", [0, 4, 8, 9, 20, 33], ids=lambda steps: f"after {steps} samples")
@every_policy
def test_a_resumed_run_continues_bit_for_bit(
    name: str, steps: int, draw: str, tmp_path: Path
) -> None:
    # With a growth of 0.3 most of these points have told samples that are pending until the next solve.
    bench = start(name, draw=draw, resolve_growth=0.3).run(steps)
    flying = bench.ask(3)
    assert_plain(bench.selector.state_dict())
    before = copy.deepcopy(bench.selector.state_dict())
    again = bench.resumed(tmp_path)
    assert_same_bits(again.selector.state_dict(), before)
    assert again.selector.in_flight == bench.selector.in_flight
    for each in (bench, again):
        each.tell(flying[2])
        each.run(7)
        each.selector.fail(flying[0])
        each.tell(flying[1])
        each.run(7)
    assert again.path == bench.path[-14:]
    assert_same_bits(again.selector.state_dict(), bench.selector.state_dict())
    assert again.selector.score == bench.selector.score
    assert again.selector.pooled_score == bench.selector.pooled_score


def test_the_points_of_resuming_include_some_with_waiting_samples() -> None:
    """The suite above would otherwise say nothing about them."""
    waiting = {
        steps: len(
            start("uniform", resolve_growth=0.3).run(steps).selector.state_dict()["pending"]["arms"]
        )
        for steps in (0, 4, 8, 9, 20, 33)
    }
    assert waiting[0] == waiting[9] == 0
    assert waiting[4] == 4
    assert waiting[20] > 0


@every_policy
def test_one_state_can_be_resumed_twice(name: str) -> None:
    bench = start(name).run(20)
    state = bench.selector.state_dict()
    kept = copy.deepcopy(state)
    paths = [
        Bench(gx.Selector.from_state_dict(state), copy.deepcopy(bench.told)).run(10).path
        for _ in range(2)
    ]
    assert paths[0] == paths[1] == bench.run(10).path[-10:]
    assert_same_bits(state, kept)


@every_policy
def test_a_retired_arm_is_drawn_no_more(name: str) -> None:
    bench = start(name).run(20)
    flying = bench.ask(5)
    before = bench.selector.counts["b"]
    bench.selector.retire_arm("b")
    assert bench.selector.arms == ("a", "c")
    assert_feasible(bench.selector)
    assert "b" not in {bench.step() for _ in range(30)}
    assert_feasible(bench.selector)
    for ticket in flying:
        bench.tell(ticket)
    assert_feasible(bench.selector)
    assert bench.selector.counts["b"] == before + sum(t.arm == "b" for t in flying)
    assert bench.selector.pooled_score.details["n"] == 55


@every_policy
def test_one_arm_gets_everything(name: str) -> None:
    bench = start(name, arms=("a",))
    for _ in range(12):
        assert bench.selector.weights == {"a": 1.0}
        assert bench.step() == "a"
    assert bench.selector.gap == pytest.approx(0, abs=1e-9)
    assert bench.selector.score == pytest.approx(float(bench.selector.pooled_score), rel=1e-9)


@every_policy
def test_an_added_arm_gets_its_warm_start_first(name: str) -> None:
    bench = start(name).run(20)
    before = bench.selector.weights
    bench.selector.add_arm("d")
    assert bench.selector.arms == (*ARMS, "d")
    assert not bench.selector.is_warm
    assert bench.selector.weights == before | {"d": 0.0}
    assert [bench.step() for _ in range(3)] == ["d"] * 3
    for _ in range(10):
        assert bench.selector.gap < math.inf
        assert_feasible(bench.selector)
        bench.step()
    assert bench.selector.pooled_score.details["n"] == 33


# -- Mixture-UCB -------------------------------------------------------------------------------------


class Quadratic:
    """The kernel distance under ``exp(−‖x−y‖²/2σ²)`` from the samples, without genmix."""

    def __init__(self, bench: Bench, sigma: float = 1.5) -> None:
        rows = [bench.rows(arm) for arm in ARMS]
        mean = lambda x, y: np.exp(  # noqa: E731
            -((x[:, None, :] - y[None, :, :]) ** 2).sum(-1) / (2 * sigma**2)
        ).mean()
        self.matrix = np.array([[mean(x, y) for y in rows] for x in rows])
        self.linear = np.array([mean(x, REFERENCE) for x in rows])
        self.constant = mean(REFERENCE, REFERENCE)

    def value(self, alpha: Matrix) -> float:
        return float(alpha @ self.matrix @ alpha - 2 * self.linear @ alpha + self.constant)

    def gradient(self, alpha: Matrix) -> Matrix:
        return 2 * (self.matrix @ alpha - self.linear)

    def singles(self) -> Matrix:
        return np.diag(self.matrix) - 2 * self.linear + self.constant


def bonus(bench: Bench, delta: float, beta: float) -> Matrix:
    counts = bench.counts()
    return delta * np.sqrt(beta * math.log(counts.sum()) / counts)


def frank_wolfe_gap(gradient: Matrix, alpha: Matrix) -> float:
    return float(gradient @ alpha - gradient.min())


def weights_of(bench: Bench) -> Matrix:
    return np.array(list(bench.selector.weights.values()))


def test_mixture_ucb_minimises_the_loss_minus_its_bonus() -> None:
    delta, delta_fidelity, beta, weight = 0.07, 0.3, 1.7, 0.25
    quality = Bench(
        gx.Selector(
            ARMS,
            KD + weight * gx.Quality() + 0.03 * gx.Cost(),
            gx.MixtureUCB(delta, delta_fidelity, beta),
            warm_start=3,
            resolve_growth=0.0,
        )
    )
    quality.run(9)
    distances = []
    for _ in range(30):
        loss, alpha = Quadratic(quality), weights_of(quality)
        means = {
            k: np.array([np.mean([s[k] for s in quality.told[a]]) for a in ARMS])
            for k in ("quality", "cost")
        }
        plain = loss.gradient(alpha) - weight * means["quality"] + 0.03 * means["cost"]
        optimism = bonus(quality, delta, beta) + weight * delta_fidelity / quality.counts()
        assert frank_wolfe_gap(plain - optimism, alpha) < 1e-7
        distances.append(frank_wolfe_gap(plain, alpha))
        quality.step()
    # Without the bonus these weights are far from optimal: the assertion above tells them apart.
    assert np.median(distances) > 1e-3


@pytest.mark.parametrize("part", ["delta", "delta_fidelity"])
def test_each_bonus_of_mixture_ucb_works_alone(part: str) -> None:
    values = {"delta": 0.0, "delta_fidelity": 0.0} | {part: 0.2}
    objective = KD + 0.5 * gx.Quality()
    bench = Bench(
        gx.Selector(ARMS, objective, gx.MixtureUCB(**values), warm_start=3, resolve_growth=0.0)
    ).run(20)
    quality = np.array([np.mean([s["quality"] for s in bench.told[arm]]) for arm in ARMS])
    alpha = weights_of(bench)
    gradient = Quadratic(bench).gradient(alpha) - 0.5 * quality
    expected = bonus(bench, 0.2, 1.0) if part == "delta" else 0.5 * 0.2 / bench.counts()
    assert frank_wolfe_gap(gradient - expected, alpha) < 1e-7


def test_time_in_the_bonus_counts_the_samples_of_retired_arms() -> None:
    delta = 0.3
    selector = gx.Selector(ARMS, KD, gx.MixtureUCB(delta), warm_start=3, resolve_growth=0.0)
    bench = Bench(selector).run(30)
    selector.retire_arm("c")
    bench.run(5)
    counts = bench.counts()
    assert counts[2] > 3
    alpha = np.append(weights_of(bench), 0.0)
    optimism = delta * np.sqrt(math.log(counts.sum()) / counts)
    gradient = (Quadratic(bench).gradient(alpha) - optimism)[:2]
    assert 0 < alpha[0] < 1
    assert frank_wolfe_gap(gradient, alpha[:2]) < 1e-7


GREEDY_OBJECTIVES: dict[str, Callable[[], gx.Objective]] = {
    "kd": lambda: gx.KernelDistance(REFERENCE),
    "rke": lambda: gx.RKE(),
    "fd": lambda: gx.FrechetDistance(REFERENCE),
    "vendi": lambda: gx.Vendi(),
    "with fidelity": lambda: gx.Vendi() + 0.3 * gx.Precision(REFERENCE) + 0.1 * gx.Quality(),
}


@pytest.mark.parametrize("draw", ["iid", "tracking"])
@pytest.mark.parametrize("objective", GREEDY_OBJECTIVES)
def test_without_bonus_it_is_mixture_greedy_step_for_step(objective: str, draw: str) -> None:
    options = {"warm_start": 4, "seed": 3, "draw": draw}
    paths, gaps = [], []
    without = (gx.MixtureUCB(delta=0.0, delta_fidelity=0.0, beta=2.0), gx.MixtureBonus(0.0))
    for policy in (gx.MixtureGreedy(), *without):
        selector = gx.Selector(ARMS, GREEDY_OBJECTIVES[objective](), policy, **options)
        paths.append(Bench(selector).run(150).path)
        gaps.append(selector.gap)
    assert paths[0] == paths[1] == paths[2]
    assert gaps[0] == gaps[1] == gaps[2]


@pytest.mark.parametrize("objective", GREEDY_OBJECTIVES)
def test_a_bonus_changes_the_path(objective: str) -> None:
    """Otherwise the test above could not fail."""
    options = {"warm_start": 4, "seed": 3}
    paths = [
        Bench(gx.Selector(ARMS, GREEDY_OBJECTIVES[objective](), policy, **options)).run(60).path
        for policy in (gx.MixtureGreedy(), gx.MixtureUCB(), gx.MixtureBonus())
    ]
    assert paths[0] != paths[1]
    assert paths[0] != paths[2]


def test_mixture_bonus_gives_back_a_part_of_what_few_samples_inflate() -> None:
    strength, weight = 0.4, 0.25
    objective = KD + weight * gx.Quality()
    policy = gx.MixtureBonus(strength)
    bench = Bench(gx.Selector(ARMS, objective, policy, warm_start=3, resolve_growth=0.0)).run(9)
    distances = []
    for _ in range(30):
        loss, alpha, counts = Quadratic(bench), weights_of(bench), bench.counts()
        shares = counts / counts.sum()
        quality = np.array([np.mean([s["quality"] for s in bench.told[arm]]) for arm in ARMS])
        plain = loss.gradient(alpha) - weight * quality
        # k(x, x) = 1, and a linear term is not inflated at all
        inflation = 1 - shares @ loss.matrix @ shares
        assert frank_wolfe_gap(plain - strength * inflation / counts, alpha) < 1e-7
        distances.append(frank_wolfe_gap(plain, alpha))
        bench.step()
    assert np.median(distances) > 1e-3


def test_mixture_bonus_of_a_linear_objective_is_greedy() -> None:
    paths = [
        Bench(gx.Selector(ARMS, gx.Quality(), policy, warm_start=2)).run(40).path
        for policy in (gx.MixtureGreedy(), gx.MixtureBonus(5.0))
    ]
    assert paths[0] == paths[1]


def test_mixture_greedy_minimises_the_loss() -> None:
    bench = Bench(gx.Selector(ARMS, KD, warm_start=3, resolve_growth=0.0)).run(9)
    for _ in range(20):
        alpha = weights_of(bench)
        expected = frank_wolfe_gap(Quadratic(bench).gradient(alpha), alpha)
        assert expected < 1e-7
        assert bench.selector.gap == pytest.approx(expected, abs=1e-12)
        bench.step()


def test_the_gap_of_a_policy_that_does_not_minimise_is_that_of_its_weights() -> None:
    for policy in (gx.MixtureUCB(), gx.Uniform(), gx.OneArmGreedy()):
        selector = gx.Selector(ARMS, KD, policy, warm_start=3, resolve_growth=0.0)
        bench = Bench(selector).run(15)
        alpha = weights_of(bench)
        expected = frank_wolfe_gap(Quadratic(bench).gradient(alpha), alpha)
        assert expected > 1e-3
        assert selector.gap == pytest.approx(expected, rel=1e-9)


# -- policies that choose one arm --------------------------------------------------------------------


def chosen(bench: Bench) -> str:
    (arm,) = [label for label, weight in bench.selector.weights.items() if weight == 1.0]
    return arm


def test_ogd_pulls_the_least_gradient_minus_bonus_at_the_running_shares() -> None:
    delta, beta = 0.05, 1.4
    bench = Bench(
        gx.Selector(ARMS, KD, gx.MixtureOGD(delta, beta), warm_start=3, resolve_growth=0.0)
    ).run(9)
    pulled = []
    for _ in range(60):
        counts = bench.counts()
        index = Quadratic(bench).gradient(counts / counts.sum()) - bonus(bench, delta, beta)
        assert chosen(bench) == ARMS[int(np.argmin(index))]
        pulled.append(bench.step())
    assert set(pulled) == set(ARMS)


def test_the_mixture_of_ogd_is_the_running_share_of_its_pulls() -> None:
    bench = Bench(gx.Selector(ARMS, KD, gx.MixtureOGD(0.05), warm_start=3, resolve_growth=0.0))
    assert set(bench.selector.mixture.values()) == {1 / 3}
    bench.run(9)
    for _ in range(40):
        bench.step()
        counts = bench.counts()
        shares = counts / counts.sum()
        np.testing.assert_allclose(list(bench.selector.mixture.values()), shares, atol=1e-15)
    loss = Quadratic(bench)
    expected = frank_wolfe_gap(loss.gradient(shares), shares)
    assert bench.selector.gap == pytest.approx(expected, rel=1e-9)
    assert float(bench.selector.score) == pytest.approx(loss.value(shares), rel=1e-9)


@every_policy
def test_the_mixture_of_all_others_is_what_they_draw_from(name: str) -> None:
    selector = start(name).run(30).selector
    assert (selector.mixture == selector.weights) == (name != "mixture_ogd")


@pytest.mark.parametrize("mixture", [[0.5, 0.5], [0.5, 0.6, -0.1], [math.nan, 0.5, 0.5]])
def test_a_mixture_off_the_simplex_is_refused(mixture: list[float]) -> None:
    class Astray(gx.Policy):
        def decide(self, situation: Situation) -> Decision:
            return Decision(np.full(3, 1 / 3), mixture=np.array(mixture))

    with pytest.raises(gx.InputError, match="the mixture's weights"):
        Bench(gx.Selector(ARMS, KD, Astray(), warm_start=3)).run(9)


def test_one_arm_greedy_and_epsilon_greedy_take_the_arm_of_least_loss() -> None:
    for policy, share in ((gx.OneArmGreedy(), 0.0), (gx.EpsilonGreedy(0.3), 0.3)):
        bench = Bench(gx.Selector(ARMS, KD, policy, warm_start=3, resolve_growth=0.0)).run(9)
        for _ in range(20):
            expected = np.full(3, share / 3)
            expected[np.argmin(Quadratic(bench).singles())] += 1 - share
            np.testing.assert_allclose(weights_of(bench), expected, atol=1e-15)
            bench.step()


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_the_ends_of_epsilon_greedy(epsilon: float) -> None:
    other = gx.OneArmGreedy() if epsilon == 0 else gx.Uniform()
    paths = [
        Bench(gx.Selector(ARMS, KD, policy, warm_start=3, seed=1)).run(40).path
        for policy in (gx.EpsilonGreedy(epsilon), other)
    ]
    assert paths[0] == paths[1]


def test_one_arm_ucb_ranks_by_loss_minus_half_the_bonus_root() -> None:
    delta, beta = 0.6, 1.3
    bench = Bench(
        gx.Selector(ARMS, KD, gx.OneArmUCB(delta, beta), warm_start=3, resolve_growth=0.0)
    ).run(9)
    pulled = []
    for _ in range(60):
        counts = bench.counts()
        index = Quadratic(bench).singles() - delta * np.sqrt(
            beta * math.log(counts.sum()) / (2 * counts)
        )
        assert chosen(bench) == ARMS[int(np.argmin(index))]
        pulled.append(bench.step())
    assert len(set(pulled)) > 1


# -- FD-UCB ------------------------------------------------------------------------------------------


def root(matrix: Matrix) -> Matrix:
    return np.real(scipy.linalg.sqrtm(matrix))


def published_index(rows: Matrix, delta: float, kappa: float, threshold: float) -> float:
    """``FD − bonus`` of one arm, with every quantity from its definition."""
    n, d = rows.shape
    mean, reference_mean = rows.mean(0), REFERENCE.mean(0)
    sigma, sigma0 = np.cov(rows.T, bias=True), np.cov(REFERENCE.T, bias=True)
    distance = np.linalg.norm(mean - reference_mean)
    fd = distance**2 + np.trace(sigma + sigma0 - 2 * root(root(sigma0) @ sigma @ root(sigma0)))
    cut = sigma.copy()
    for i in range(d):
        for j in range(d):
            if abs(sigma[i, j]) < threshold * math.sqrt(
                2 * sigma[i, i] * sigma[j, j] * math.log(d) / n
            ):
                cut[i, j] = 0.0
    log = math.log(1 / delta)
    norm = np.linalg.norm(cut, 2)
    rank = np.trace(cut) / norm if norm else 0.0
    mean_square = (math.sqrt(np.trace(cut @ cut) * log) + norm * log) / n
    spread = kappa**2 * norm * math.sqrt((rank + log) / n) + mean_square
    mean_radius = math.sqrt(mean_square)
    first = mean_radius * (mean_radius + distance)
    second = np.trace(root(sigma0)) * math.sqrt(spread)
    return fd - (first + second + np.trace(cut) * math.sqrt(log / n) + norm * log / n)


@pytest.mark.parametrize(
    "delta, kappa, threshold", [(0.05, 1.0, 0.0), (0.9, 0.4, 0.0), (0.5, 0.7, 0.6)]
)
def test_frechet_ucb_follows_the_published_formula(
    delta: float, kappa: float, threshold: float
) -> None:
    policy = gx.FrechetUCB(delta, kappa, threshold)
    selector = gx.Selector(
        ARMS, gx.FrechetDistance(REFERENCE), policy, warm_start=6, resolve_growth=0.0
    )
    bench = Bench(selector).run(18)
    pulled = []
    for _ in range(60):
        index = [published_index(bench.rows(arm), delta, kappa, threshold) for arm in ARMS]
        assert np.ptp(index) > 1e-9
        assert chosen(bench) == ARMS[int(np.argmin(index))]
        pulled.append(bench.step())
    assert len(set(pulled)) > 1


def test_the_threshold_of_frechet_ucb_matters_in_that_test() -> None:
    rows = np.array([sample("a", k)["embedding"] for k in range(12)])
    assert published_index(rows, 0.5, 0.7, 0.6) != published_index(rows, 0.5, 0.7, 0.0)


def test_the_bonus_itself_is_the_published_one() -> None:
    """The choice of an arm shows only the order of the indices; here are the numbers."""
    objective = gx.FrechetDistance(REFERENCE)
    for threshold in (0.0, 0.6):
        policy = gx.FrechetUCB(0.2, 1.3, threshold)
        tally = objective.tally(3, REFERENCE)
        for index, arm in enumerate(ARMS):
            rows = np.array([sample(arm, k)["embedding"] for k in range(7 + 5 * index)])
            tally.add(index, Batch(rows))
            loss = tally.loss([index]).singles()[0]
            expected = published_index(rows, 0.2, 1.3, threshold)
            assert loss - policy._bonus(tally, index) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("threshold", [0.0, 5.0])
def test_frechet_ucb_survives_an_arm_without_variance(threshold: float) -> None:
    """A threshold of 5 zeroes every entry, a collapsed arm has none to begin with."""
    selector = gx.Selector(
        ("a", "b"),
        gx.FrechetDistance(REFERENCE),
        gx.FrechetUCB(threshold=threshold),
        warm_start=3,
    )
    for step in range(20):
        (ticket,) = selector.ask()
        rows = np.ones(DIMENSION) if ticket.arm == "a" else sample("b", step)["embedding"]
        selector.tell(ticket, rows)
        assert_feasible(selector)


@pytest.mark.parametrize("objective", ["kd", "sum", "linear"])
def test_frechet_ucb_refuses_other_objectives(objective: str) -> None:
    with pytest.raises(gx.InputError, match="only with FrechetDistance"):
        gx.Selector(ARMS, OTHER_OBJECTIVES[objective](), gx.FrechetUCB())


# -- policies with given weights ---------------------------------------------------------------------


def test_uniform_gives_every_arm_the_same() -> None:
    bench = start("uniform").run(30)
    assert weights_of(bench).tolist() == [1 / 3] * 3


@pytest.mark.parametrize("policy", [gx.Fixed, gx.MixtureOracle])
def test_fixed_weights_are_kept_and_go_to_the_others_in_proportion(policy: Any) -> None:
    given = {"a": 0.5, "b": 0.2, "c": 0.3}
    selector = gx.Selector(ARMS, KD, policy(given), warm_start=2)
    bench = Bench(selector).run(10)
    assert selector.weights == pytest.approx(given, abs=1e-15)
    selector.retire_arm("b")
    assert selector.weights == pytest.approx({"a": 0.625, "c": 0.375}, abs=1e-15)
    bench.run(10)
    assert selector.weights == pytest.approx({"a": 0.625, "c": 0.375}, abs=1e-15)
    selector.add_arm("b")
    assert selector.weights == pytest.approx(given, abs=1e-15)


def test_fixed_takes_weights_in_any_order_and_does_not_follow_later_changes() -> None:
    given = {"c": 0.3, "a": 0.5, "b": 0.2}
    policy = gx.Fixed(given)
    assert policy == gx.Fixed(dict(sorted(given.items())))
    assert hash(policy) == hash(gx.Fixed(dict(sorted(given.items()))))
    given["c"] = 1.0
    bench = Bench(gx.Selector(ARMS, KD, policy, warm_start=2)).run(6)
    assert weights_of(bench) == pytest.approx([0.5, 0.2, 0.3], abs=1e-15)


def test_the_one_arm_oracle_draws_its_arm_alone() -> None:
    bench = Bench(gx.Selector(ARMS, KD, gx.OneArmOracle("b"), warm_start=2)).run(6)
    assert bench.selector.weights == {"a": 0.0, "b": 1.0, "c": 0.0}
    assert {bench.step() for _ in range(20)} == {"b"}


def test_oracles_refuse_to_lose_their_arm() -> None:
    selector = gx.Selector(ARMS, KD, gx.OneArmOracle("b"), warm_start=2)
    with pytest.raises(gx.InputError, match="names an arm that is not active"):
        selector.retire_arm("b")
    assert selector.arms == ARMS
    with pytest.raises(gx.InputError, match="'d'"):
        gx.Selector(ARMS, KD, gx.OneArmOracle("d"))
    selector = gx.Selector(ARMS, KD, gx.Fixed({"a": 1.0}), warm_start=2)
    with pytest.raises(gx.InputError, match="no weight"):
        selector.retire_arm("a")
    assert selector.arms == ARMS
