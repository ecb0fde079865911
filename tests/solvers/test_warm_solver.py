"""Re-solving: which solvers the selector may resolve with, and what an uncertified solution says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.core.description import Description
from genmix.policies import Decision
from genmix.solvers.solve import Solution, WarmSolver, certify
from tests.support.helpers import gaussian_arms, loss_of


def run(solver: Any, samples: int = 60) -> gx.Selector:
    rng = np.random.default_rng(0)
    selector = gx.Selector(["a", "b"], gx.Vendi(), warm_start=5, seed=0, solver=solver)
    for _ in range(samples):
        [ticket] = selector.ask()
        shift = np.eye(4)[0 if ticket.arm == "a" else 1]
        selector.tell(ticket, shift + 0.5 * rng.standard_normal(4))
    return selector


@dataclass(frozen=True, eq=False)
class ConflictResolver(Description):
    """A user's solver with an unrelated method that happens to be called ``resolve``."""

    def solve(self, loss: Any, start: Any, curvature: Any = None) -> Solution:
        return gx.Newton().solve(loss, start)

    def resolve(self, *conflicts: Any) -> Any:
        raise AssertionError("an unrelated method was called")


@dataclass(frozen=True, eq=False)
class CountingSolver(Description, WarmSolver):
    """A user's solver that declares a warm method."""

    def solve(self, loss: Any, start: Any, curvature: Any = None) -> Solution:
        raise AssertionError("the warm method should have been called")

    def resolve(self, loss: Any, start: Any, curvature: Any = None) -> Solution:
        return gx.Newton().solve(loss, start)


def test_a_method_called_resolve_of_a_users_solver_is_not_called() -> None:
    assert run(ConflictResolver()).weights == run(CountingSolver()).weights


def test_newton_declares_its_warm_method() -> None:
    assert isinstance(gx.Newton(), WarmSolver)
    assert not isinstance(gx.EG(), WarmSolver)


def test_an_uncertified_solution_has_an_infinite_gap_and_no_loss() -> None:
    rng = np.random.default_rng(1)
    loss = loss_of(gx.Vendi(), gaussian_arms(rng, (40, 50, 60), 8))
    first = gx.Newton().solve(loss, np.full(3, 1 / 3))
    again = gx.Newton(tolerance=1e-6).resolve(loss, np.array([0.4, 0.3, 0.3]), first.curvature)
    assert again.gap == math.inf
    assert math.isnan(again.loss)
    assert certify(loss, again.weights).gap < 1e-4


def test_a_decision_without_a_gap_has_an_infinite_one() -> None:
    assert Decision(np.ones(1)).gap == math.inf


@pytest.mark.parametrize("policy", [gx.MixtureGreedy(), gx.MixtureUCB(), gx.Uniform()])
def test_the_selector_computes_an_unknown_gap_when_it_is_read(policy: gx.Policy) -> None:
    rng = np.random.default_rng(2)
    selector = gx.Selector(["a", "b"], gx.Vendi(), policy, warm_start=4)
    assert selector.gap == math.inf
    for ticket in selector.ask(8):
        selector.tell(ticket, rng.standard_normal(3))
    assert 0 <= selector.gap < math.inf


@dataclass(frozen=True, eq=False)
class Secretive(gx.Policy):
    """A policy that does not know its gap, and says so in its own way."""

    gap: Any = None

    def decide(self, situation: Any) -> Decision:
        size = len(situation.counts)
        return Decision(np.full(size, 1 / size), self.gap)


@pytest.mark.parametrize("gap", [None, math.nan, math.inf])
def test_a_gap_that_a_policy_does_not_know_is_computed(gap: Any) -> None:
    rng = np.random.default_rng(0)
    selector = gx.Selector(["a", "b"], gx.Vendi(), Secretive(gap), warm_start=5, seed=0)
    for _ in range(20):
        [ticket] = selector.ask()
        selector.tell(ticket, rng.standard_normal(4))
    assert 0 <= selector.gap < 1
    assert gx.Selector.from_state_dict(selector.state_dict()).gap == selector.gap
