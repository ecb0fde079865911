"""Run the cases of a target; count results, sentences and failures."""

from __future__ import annotations

import os
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

from genmix.core.limits import VARIABLE
from genmix.core.text import aligned
from genmix.errors import GenmixError
from genmix.study.problems import StudyError

SECONDS = 60
"""A case that takes longer hangs."""
MEMORY = 500_000
"""Kilobytes; a case must not raise the peak memory by more than this."""
LIMIT = 32 << 20
"""The value of GENMIX_MAX_BYTES while fuzzing."""
BATCH = 500
"""Cases per run of hypothesis, which remembers all of them."""

Read = Callable[[Path, Any], object]
"""Reads a case; the folder is empty at the start of a target and can be reused by its cases."""


@dataclass(frozen=True)
class Target:
    """A reader, and a strategy for what it reads."""

    name: str
    cases: int
    """Number of cases at full size."""
    strategy: Callable[[], st.SearchStrategy[Any]]
    read: Read


@dataclass
class Tally:
    """The outcomes of one target."""

    name: str
    cases: int = 0
    results: int = 0
    sentences: int = 0
    failures: dict[str, tuple[int, Any, str]] = field(default_factory=dict)
    """By kind of failure: how often it occurred, the first case, and its traceback."""
    seconds: float = 0.0

    @property
    def failed(self) -> int:
        return sum(count for count, _, _ in self.failures.values())

    def add_failure(self, kind: str, case: Any, details: str) -> None:
        count, first, text = self.failures.get(kind, (0, case, details))
        self.failures[kind] = (count + 1, first, text)


class Hang(BaseException):
    """A case took too long. Not an Exception, so that no reader can catch it."""


class NotASentence(Exception):
    """The message of an error is not one sentence on one line."""


def fuzz(target: Target, cases: int, first_seed: int) -> Tally:
    """Run the cases of a target in batches of hypothesis examples."""
    tally, started = Tally(target.name), time.perf_counter()
    with tempfile.TemporaryDirectory() as name, _surroundings(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, start in enumerate(range(0, cases, BATCH)):
            _run_batch(target, min(BATCH, cases - start), first_seed + number, Path(name), tally)
    tally.seconds = time.perf_counter() - started
    return tally


def _run_batch(target: Target, cases: int, number: int, folder: Path, tally: Tally) -> None:
    @seed(number)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=target.strategy())
    def run(case: Any) -> None:
        _run_case(target, case, folder, tally)

    run()


def _run_case(target: Target, case: Any, folder: Path, tally: Tally) -> None:
    tally.cases += 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with _alarm():
            target.read(folder, case)
        tally.results += 1
    except GenmixError as error:
        fault = _fault(error)
        if fault is None:
            tally.sentences += 1
        else:
            tally.add_failure(fault, case, traceback.format_exc())
    except (Exception, Hang) as error:
        tally.add_failure(_kind(error), case, traceback.format_exc())
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > MEMORY:
        tally.add_failure(f"{grown} kB more memory", case, "")


def _fault(error: GenmixError) -> str | None:
    """What is wrong with the message of an error, if anything."""
    sentences = error.problems if isinstance(error, StudyError) else (str(error),)
    lines = str(error).splitlines()
    if all(line.startswith("arm '") for line in lines):
        sentences = lines  # one sentence per arm
    for sentence in sentences:
        if sentence != sentence.strip() or not sentence.endswith((".", "?")):
            return f"not a sentence ({type(error).__name__})"
        if len(sentence.splitlines()) != 1:
            return f"more than one line ({type(error).__name__})"
    return None


def _kind(error: BaseException) -> str:
    """The type of an exception, and the innermost line of genmix that raised it."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/genmix/" in f.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside genmix"
    return f"{type(error).__name__} at {place}"


@contextmanager
def _alarm() -> Iterator[None]:
    def hang(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _surroundings() -> Iterator[None]:
    """A low limit for the content of files."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(LIMIT)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def table(tallies: list[Tally]) -> str:
    """One line per target."""
    rows = [("target", "cases", "results", "sentences", "failures", "seconds")]
    rows += [
        (t.name, str(t.cases), str(t.results), str(t.sentences), str(t.failed), f"{t.seconds:.1f}")
        for t in tallies
    ]
    totals = [sum(column) for column in zip(*[_numbers(t) for t in tallies], strict=True)]
    rows.append(
        ("all", *(f"{total:.1f}" if i == 4 else str(total) for i, total in enumerate(totals)))
    )
    return "\n".join(aligned(rows))


def _numbers(tally: Tally) -> tuple[float, ...]:
    return (tally.cases, tally.results, tally.sentences, tally.failed, tally.seconds)
