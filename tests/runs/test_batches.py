"""Batches: arms see batches of their size, the draws stay the same, and no ticket waits for long."""

from __future__ import annotations

import math
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import genmix as gx
from genmix.journal.reader import JournalReader
from genmix.journal.schema import Entry
from genmix.runs import arm as arm_module
from genmix.runs.arm import LONGEST_WAIT, ArmState
from genmix.runs.generating import Generating
from genmix.runs.loop import ASKED_AHEAD, Loop
from genmix.runs.retries import Retries
from tests.runs.test_loop import Maker, Settings, Stage, text

SHARES = {"a": 0.5, "b": 0.3, "c": 0.2}


def stage(folder: Path, **options: Any) -> Stage:
    """Three arms with fixed weights, whose calls take different times."""
    folder.mkdir(exist_ok=True)
    makers = {
        label: Maker(text(letters), pause)
        for label, letters, pause in (("a", "ab", 0.002), ("b", "cd", 0.0), ("c", "ef", 0.004))
    }
    made = Stage(folder, makers, **options)
    made.policy = gx.Fixed(SHARES)
    return made


def drawn_arms(folder: Path) -> list[str]:
    """The arms of all tickets that were drawn at random, in this order; those of the warm start are not."""
    with JournalReader.open(folder) as journal:
        rows = sorted(journal.told_rows(), key=lambda row: row["id"])
    return [row["arm"] for row in rows if row["propensity"] < 1]


def play(folder: Path, **options: Any) -> Stage:
    made = stage(folder, **options)
    made.go()
    return made


# -- the draws ---------------------------------------------------------------------------------------


def check_frequencies(arms: list[str]) -> None:
    """Compare the frequencies with the weights; the level of the test is 0.1%."""
    counts = Counter(arms)
    expected = {label: share * len(arms) for label, share in SHARES.items()}
    statistic = sum((counts[a] - expected[a]) ** 2 / expected[a] for a in SHARES)
    assert statistic < chi2.ppf(0.999, len(SHARES) - 1)


def test_grouping_does_not_change_the_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grouped = play(tmp_path / "grouped", samples=400, in_flight=48, batch=8)
    one_by_one = play(tmp_path / "one", samples=400)
    monkeypatch.setattr(arm_module, "LONGEST_WAIT", 0.0)
    at_once = play(tmp_path / "at-once", samples=400, in_flight=48, batch=8)
    drawn = [drawn_arms(made.folder) for made in (grouped, one_by_one, at_once)]
    for arms in drawn:
        check_frequencies(arms)
    same = min(map(len, drawn))  # with more in flight, the warm start has a few more tickets
    assert same > 250
    assert drawn[0][:same] == drawn[1][:same] == drawn[2][:same]


@pytest.mark.drill
@pytest.mark.parametrize("seed", range(20))
def test_frequencies_of_grouped_draws(tmp_path: Path, seed: int) -> None:
    made = stage(tmp_path, samples=500, in_flight=48, batch=8)
    made.seed = seed
    made.go()
    check_frequencies(drawn_arms(tmp_path))


# -- full batches ------------------------------------------------------------------------------------


def sizes(made: Stage) -> list[int]:
    return [size for maker in made.makers.values() for size in maker.sizes]


def test_most_calls_have_a_full_batch(tmp_path: Path) -> None:
    made = play(tmp_path, samples=400, in_flight=48, batch=8)
    assert sum(sizes(made)) == 400
    assert max(sizes(made)) == 8
    assert sum(size for size in sizes(made) if size == 8) > 0.6 * 400


def test_a_batch_larger_than_the_number_in_flight_does_not_wait(tmp_path: Path) -> None:
    made = play(tmp_path, samples=40, in_flight=3, batch=8)
    assert sum(sizes(made)) == 40
    assert max(sizes(made)) <= 3


# -- waiting -----------------------------------------------------------------------------------------


def waiting_arm(tickets: int, **state: Any) -> ArmState:
    arm = ArmState("a", Maker(text("ab")), 1, 8, Retries(Settings()), **state)  # type: ignore[arg-type]
    arm.queue.extend(Entry(number, "a", number, 1, 1.0, 1.0) for number in range(tickets))
    return arm


def test_an_incomplete_batch_waits_as_long_as_a_call_takes() -> None:
    arm = waiting_arm(3, call_seconds=2.0)
    assert not arm.has_full_batch(100)
    assert arm.seconds_to_wait(10.0) == 2.0
    arm.queue.append(Entry(3, "a", 3, 1, 1.0, 1.0))  # another ticket does not extend the wait
    assert arm.seconds_to_wait(11.5) == 0.5
    assert arm.seconds_to_wait(12.0) == 0.0
    assert len(arm.take_batch(100)) == 4
    assert arm.seconds_to_wait(20.0) == 2.0  # the next batch has its own wait


def test_no_batch_waits_longer_than_the_limit() -> None:
    arm = waiting_arm(3, call_seconds=1000.0)
    assert arm.seconds_to_wait(5.0) == LONGEST_WAIT


def test_an_arm_that_has_not_returned_a_sample_does_not_wait() -> None:
    assert waiting_arm(3).seconds_to_wait(5.0) == 0.0


def test_a_rare_arm_is_not_delayed_until_its_batch_is_full(tmp_path: Path) -> None:
    made = stage(tmp_path, samples=200, in_flight=48, batch=16)
    made.policy = gx.Fixed({"a": 0.49, "b": 0.49, "c": 0.02})
    made.go()
    assert min(made.makers["c"].sizes) < 16
    assert sum(sizes(made)) == 200


# -- the order of calls ------------------------------------------------------------------------------


def test_the_oldest_ticket_is_generated_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever its arm is in the study, even if the arms before it always have tickets."""
    started: list[int] = []
    take = ArmState.take_batch

    def recorded(arm: ArmState, room: int) -> list[Entry]:
        entries = take(arm, room)
        started.extend(entry.id for entry in entries)
        return entries

    monkeypatch.setattr(ArmState, "take_batch", recorded)
    made = stage(tmp_path, samples=300, in_flight=8, concurrency=8)
    made.policy = gx.Fixed({"a": 0.8, "b": 0.15, "c": 0.05})
    made.go()
    assert len(started) == 300
    assert started == sorted(started)


class Starting(Generating):
    """The part of a loop that starts calls, with one full batch waiting."""

    def __init__(self, left: float = math.inf, failed: bool = False, waited: bool = False) -> None:
        self.arms = {"a": waiting_arm(3 if waited else 8)}
        if waited:
            self.arms["a"].seconds_to_wait(time.monotonic())
        self.limits: Any = SimpleNamespace(in_flight=100)
        self.clock: Any = SimpleNamespace(left=left)
        self.reason = None
        self.started = 0
        self._inbox: Any = SimpleNamespace(has_failed=failed, spawn=self._count)

    def _count(self, call: Any) -> None:
        call.close()
        self.started += 1

    def _has_room(self, more: int = 1) -> bool:
        return True


@pytest.mark.parametrize(
    ("loop", "started"),
    [
        (Starting(), 1),
        (Starting(left=0.0), 0),
        (Starting(failed=True), 0),
        (Starting(waited=True), 1),
    ],
    ids=["ordinary", "time is over", "the journal failed", "an incomplete batch has waited"],
)
def test_calls_that_start_while_the_selector_is_busy(loop: Starting, started: int) -> None:
    loop._start_due_now()
    assert loop.started == started


# -- the number in flight ----------------------------------------------------------------------------


@pytest.mark.parametrize("in_flight", [1, 3, 8])
def test_samples_in_progress_never_exceed_the_limit(tmp_path: Path, in_flight: int) -> None:
    peaks: list[tuple[int, int]] = []

    def look(loop: Loop) -> None:
        generating = sum(arm.generating for arm in loop.arms.values())
        peaks.append((generating, len(loop.session.selector.in_flight)))

    made = play(tmp_path, samples=80, in_flight=in_flight, concurrency=8, after=look)
    generating, tickets = np.max(peaks, axis=0)
    assert generating <= in_flight
    assert tickets <= in_flight + in_flight // ASKED_AHEAD
    assert sum(maker.peak for maker in made.makers.values()) >= min(in_flight, 2)
