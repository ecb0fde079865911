"""An interrupted ``keep`` returns a valid set with a valid bound, whenever the interrupt arrives."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.objectives import Batch
from genmix.offline import keep as keep_module
from genmix.offline.keeping import Baselines, bound_sentence
from genmix.offline.trivial_bounds import trivial_bounds
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
        if found.directions is not None:
            assert found.loss_bound > -np.inf
        assert found.gap == found.loss - found.loss_bound
        assert found.loss_bound <= min(self.best, final.loss, found.loss) + slack
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
    for stop in stops(clock.calls, most):
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


class LineInterrupt:
    """Interrupts a call at one of the lines of genmix that it executes, once its arguments are checked."""

    def __init__(self, stop: int = 0) -> None:
        self.lines, self.stop, self.has_begun = 0, stop, False

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        self.has_begun |= code is keep_module._Task.finish.__code__
        is_ours = self.has_begun and "genmix" in code.co_filename and code is not gx.keep.__code__
        if event == "line" and is_ours:
            self.lines += 1
            if self.lines == self.stop:
                raise KeyboardInterrupt
        return self

    def run(self, call: Callable[[], gx.Kept]) -> gx.Kept:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            return call()
        finally:
            sys.settrace(before)


def interrupted_at_lines(name: str, most: int) -> None:
    problem, count = Problem(name), LineInterrupt()
    final = count.run(problem.keep)
    before_search = 0
    for stop in stops(count.lines, most):
        found = LineInterrupt(stop).run(problem.keep)
        problem.check(found, final)
        before_search += found.directions is None
    assert before_search > 0


@pytest.mark.parametrize("name", ["vendi", "kd_unbiased", "sum"])
def test_an_interrupt_at_any_line_returns_a_set_with_its_bound(name: str) -> None:
    interrupted_at_lines(name, most=15)


@pytest.mark.long
@pytest.mark.parametrize("name", JUDGES)
def test_an_interrupt_at_any_line_for_every_objective(name: str) -> None:
    interrupted_at_lines(name, most=200)


def test_a_second_interrupt_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(keep_module, "set_scores", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gx.keep(np.eye(6), 3, gx.Vendi())


def before_search(monkeypatch: pytest.MonkeyPatch, objective: gx.Objective) -> gx.Kept:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(keep_module, "sample_loss", interrupted)
    return gx.keep(np.eye(6), 3, objective, start=[1, 3, 5])


def test_before_the_search_the_set_is_the_start_and_the_bound_holds_for_any_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = before_search(monkeypatch, gx.Vendi())
    assert kept.indices.tolist() == [1, 3, 5]
    assert (kept.bound, kept.interrupted, kept.directions) == (3.0, True, None)
    assert kept.loss_bound == pytest.approx(-np.log(3))
    assert str(kept).splitlines()[-1] == (
        "interrupted before the search began; the set was not optimized"
    )


@pytest.mark.parametrize("name", JUDGES)
def test_no_set_beats_the_bound_that_holds_for_any_samples(name: str) -> None:
    make, losses = JUDGES[name]
    for seed in range(5):
        case, k = make_case(name, seed, 9)
        _, objective = keep_module.validated(
            case.X, make(case.reference), case.quality, case.cost, ExitStack()
        )
        batch = Batch(case.X, case.quality, case.cost)
        best = float(losses(case, case.subsets(k)).min())
        assert trivial_bounds(objective, batch, k).loss <= best + 1e-9 * max(1.0, abs(best))


def test_before_the_search_a_bound_may_be_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = before_search(monkeypatch, gx.KernelDistance(np.eye(6), gx.Gaussian(1.0), unbiased=True))
    assert (kept.bound, kept.loss_bound, kept.gap) == (None, -np.inf, np.inf)
    assert "above the minimum" not in str(kept)


@pytest.mark.parametrize(
    ("objective", "sentence"),
    [
        (gx.Vendi(), "scores better than 3. The search was interrupted before a better bound"),
        (gx.Vendi() + 0.1 * gx.Precision(np.eye(6), k=2), "interrupted before a better bound"),
        (gx.KernelDistance(np.eye(6), gx.Gaussian(1.0), unbiased=True), "before a bound was known"),
    ],
)
def test_the_sentence_about_the_bound_says_that_the_search_had_not_begun(
    objective: gx.Objective, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(keep_module, "sample_loss", interrupted)
    rows = np.eye(6)[[0, 1, 2, 2, 2, 2]]
    found = Baselines.of(Batch(rows, None, None), objective, 3).keep(np.arange(6))
    plain = found.as_dict()
    json.dumps(plain, allow_nan=False)
    assert plain["interrupted"]
    assert plain["directions"] is None
    assert sentence in bound_sentence(plain)


def test_other_errors_of_the_progress_function_are_raised() -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        gx.keep(np.eye(6), 3, gx.Vendi(), progress=fail)
