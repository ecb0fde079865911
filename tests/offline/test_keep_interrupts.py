"""An interrupted ``keep`` returns a valid set with a valid bound, whenever the interrupt arrives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.offline import keep as keep_module
from tests.support.keep_judges import JUDGES, Case, make_case

COUNTED = ("moment", "value", "expand", "after_adding")
"""Methods of a loss that take time, during which an interrupt can arrive."""


class Problem:
    """A small world with groups, the best feasible loss by brute force, and searches in it."""

    def __init__(self, name: str, seed: int = 7) -> None:
        self.name = name
        make, losses = JUDGES[name]
        self.case, self.k = make_case(name, seed, 9)
        self.objective = make(self.case.reference)
        size = len(self.case.X)
        self.labels = np.arange(size) % 2
        self.most = min(self.k, (self.k + 1) // 2 + 1)
        sets = self.case.subsets(self.k)
        counts = (self.labels[sets] == 0).sum(axis=1)
        allowed = sets[(counts >= 1) & (counts <= self.most)]
        self.best = float(losses(self.case, allowed).min())

    def keep(self, progress: Callable[[Any], None] | None = None) -> gx.Kept:
        case: Case = self.case
        return gx.keep(
            case.X,
            self.k,
            self.objective,
            quality=case.quality,
            cost=case.cost,
            groups=self.labels,
            at_least={0: 1},
            at_most={0: self.most},
            progress=progress,
        )

    def check(self, found: gx.Kept, final: gx.Kept) -> None:
        assert found.interrupted
        assert "interrupted" in str(found)
        assert len(found.indices) == len(set(found.indices)) == self.k
        both = np.concatenate([found.indices, found.dropped])
        assert sorted(both) == list(range(len(self.case.X)))
        assert 1 <= np.sum(self.labels[found.indices] == 0) <= self.most
        slack = 1e-9 * max(1.0, abs(self.best))
        assert -np.inf < found.loss_bound <= min(self.best, final.loss, found.loss) + slack
        if found.bound is not None:
            sign = 1 if final.score.maximise else -1  # type: ignore[union-attr]
            reached = float(final.score)  # type: ignore[arg-type]
            assert sign * (found.bound - reached) >= -1e-7 * max(1.0, abs(reached))


def stops(total: int, most: int) -> list[int]:
    """The first of ``total`` moments, and others that are spread over all of them."""
    spread = np.linspace(1, total, min(total, most)).astype(int)
    return np.union1d(np.arange(1, min(total, most) + 1), spread).tolist()  # type: ignore[no-any-return]


def interrupted_at_steps(name: str, most: int) -> None:
    problem, steps = Problem(name), []
    final = problem.keep(steps.append)
    assert not final.interrupted
    assert [now.step for now in steps] == list(range(1, len(steps) + 1))
    for stop in stops(len(steps), most):

        def progress(now: Any, stop: int = stop) -> None:
            if now.step == stop:
                raise KeyboardInterrupt

        found = problem.keep(progress)
        problem.check(found, final)
        assert found.steps == stop


@pytest.mark.parametrize("name", ["vendi", "vendi_infinity", "frechet", "kd_unbiased", "sum"])
def test_an_interrupt_at_any_step_returns_a_set_with_its_bound(name: str) -> None:
    interrupted_at_steps(name, most=5)


@pytest.mark.long
@pytest.mark.parametrize("name", JUDGES)
def test_an_interrupt_at_every_step_for_every_objective(name: str) -> None:
    interrupted_at_steps(name, most=10_000)


class Clock:
    """Counts the calls of a loss's methods, and interrupts one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.stop = 0, 0
        convert = keep_module.sample_loss

        def converted(*given: Any) -> Any:
            found = convert(*given)
            for method in COUNTED:
                setattr(found.loss, method, self._counted(getattr(found.loss, method)))
            return found

        monkeypatch.setattr(keep_module, "sample_loss", converted)

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            self.calls += 1
            if self.calls == self.stop:
                raise KeyboardInterrupt
            return method(*given, **more)

        return call


def interrupted_at_calls(name: str, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    problem, clock = Problem(name), Clock(monkeypatch)
    final = problem.keep()
    for stop in stops(clock.calls - 2, most):  # the last two calls evaluate the result
        clock.calls, clock.stop = 0, stop
        problem.check(problem.keep(), final)


@pytest.mark.parametrize("name", ["vendi", "kd_unbiased"])
def test_an_interrupt_during_any_evaluation_returns_a_set_with_its_bound(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_at_calls(name, monkeypatch, most=5)


@pytest.mark.long
@pytest.mark.parametrize("name", JUDGES)
def test_an_interrupt_during_any_evaluation_for_every_objective(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_at_calls(name, monkeypatch, most=40)


def test_other_errors_of_the_progress_function_are_raised() -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        gx.keep(np.eye(6), 3, gx.Vendi(), progress=fail)
