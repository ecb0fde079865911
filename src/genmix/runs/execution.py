"""One session of a run: restore the selector, run the loop, write the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from genmix import __version__
from genmix.core.arrays import namespace
from genmix.core.atomic import write_text
from genmix.core.text import quotable
from genmix.data.samples import Request
from genmix.encoders.references import Note
from genmix.engines import open_engine
from genmix.engines.base import Engine
from genmix.engines.embedding import EmbeddingQueue
from genmix.errors import InputError
from genmix.generators.base import Generator, Outcomes
from genmix.journal.file_systems import network_warning
from genmix.journal.journal import Journal
from genmix.journal.lock import mark_stopping
from genmix.journal.watching import Watcher, Watchers
from genmix.runs import prepare
from genmix.runs.arm import ArmState
from genmix.runs.interrupts import Interrupts
from genmix.runs.loop import INTERRUPTED, Loop
from genmix.runs.result import Run, complete_mixture, completion, write_results
from genmix.runs.retries import Retries
from genmix.runs.session import Session
from genmix.runs.spending.budget import Clock, EarlyStopping, Limits, Money
from genmix.runs.spending.estimate import estimate
from genmix.runs.spending.planning import UNAFFORDABLE, left_out
from genmix.runs.spending.supply import max_samples
from genmix.runs.timeline import KeptSoFar, Live, Timeline
from genmix.study.study import Study

STUDY = "study.yaml"
REPORT = "GENMIX_REPORT"
"""An environment variable; set it to ``off`` to skip the report at the end of a run."""

START_LIMIT, START_SHARE = 60.0, 0.9
"""Seconds that a worker may take to start, and the largest part of the timeout of a call that it may use."""

REMOVED = "it was removed from the study"
"""The reason recorded when an arm was retired because the study no longer contains it."""

Callback = Callable[[Live], None]
"""A function that is called with the running study after every event."""


@dataclass
class Options:
    """Options for watching and ending a run."""

    callbacks: Sequence[Callback] = ()
    note: Note = lambda line: None
    hard_stop: Callable[[], None] = lambda: None
    """Called on the second Ctrl-C."""
    address: str | None = None
    """The address of the Ray cluster, if the study's engine is Ray; by default, a local one is started."""
    report: bool = field(default_factory=lambda: os.environ.get(REPORT) != "off")
    """Whether to write the report at the end."""
    report_progress: Callable[[int, int], None] = lambda done, total: None
    """Called with the finished steps and their total while the report is written."""


@dataclass
class Execution:
    """One session of a run: continues from the end of the journal and writes the results."""

    journal: Journal
    study: Study
    parts: prepare.Parts
    options: Options
    interrupts: Interrupts

    async def run(self) -> Run:
        copy_study(self.journal)
        self.journal.watch = Watchers(c for c in self.options.callbacks if isinstance(c, Watcher))
        session = Session(self.parts.selector, self.journal, self.study.seed, self.options.note)
        rule = self.study.stop_when
        stopping = None if rule is None else EarlyStopping(rule, session)
        session.restore(None if stopping is None else stopping.check)
        self._match_arms(session)
        self._fit_warm_start(session)
        loop = self._make_loop(session, stopping)
        live = Live(self.study, self.journal.path.parent, loop, Timeline(session))
        error = await self._run_loop(live)
        session.save_snapshot(at_once=True)
        why = loop.trouble or loop.reason
        kind = "trouble" if loop.trouble else "interrupted" if why == INTERRUPTED else "finished"
        completed = {} if loop.can_resume else self._complete(session, loop)
        live.timeline.write(at_end=True)
        self.journal.event(kind, why=why, **completed)
        if self.study.keep is not None:
            self.options.note("choosing the samples to keep")
        run = write_results(self.study, session)
        if error is not None:
            raise error
        return run

    def _match_arms(self, session: Session) -> None:
        """Let new arms join, and retire those that the study no longer contains."""
        arms = self.study.arms
        retired = (e for e in self.journal.events() if e["kind"] == "retire")
        reasons = {event["arm"]: event["detail"].get("why") for event in retired}
        for label in arms:
            if label not in session.selector.counts:
                session.join(label, why="it was added to the study")
            elif reasons.get(label) == REMOVED and label not in session.selector.arms:
                session.revive(label, why="it was added to the study again")
        for label in session.selector.arms:
            if label not in arms:
                session.retire(label, why=REMOVED)
        for entry, sample in self.journal.open_tickets():
            if entry.arm not in arms and sample is None:
                session.withdraw(entry)
        if session.selector.shares != (shares := prepare.shares_of(self.study)):
            session.plan(shares=shares)

    def _fit_warm_start(self, session: Session) -> None:
        """Shorten the warm start of a new run to what the cost budget covers, or leave arms out.

        When the budget has changed, the run tries again with the arms that it left out.
        """
        if self.journal.last_step() < 0:
            found = estimate(self.study, self.parts.generators)
            if found.is_shorter:
                session.plan(warm_start=found.warm_start.size)
            for label in found.warm_start.left_out:
                session.retire(label, why=UNAFFORDABLE)
        for label in left_out(self.journal, before_change=True):
            if label in self.study.arms:
                session.revive(label, why="the budget has changed")

    def _make_loop(self, session: Session, stopping: EarlyStopping | None) -> Loop:
        study, budget, retries = self.study, self.study.budget, self.study.retries
        arms = {
            label: ArmState(
                label,
                generator,
                study.arms[label].concurrency,
                study.arms[label].batch,
                Retries(retries),
            )
            for label, generator in self.parts.generators.items()
        }
        for label in session.selector.counts:
            if label not in arms:
                arms[label] = ArmState(label, RemovedArm(), 1, 1, Retries(retries))
        most = max_samples(study)
        warm_start = session.selector.warm_start
        limits = Limits(most, study.in_flight, retries.give_up, warm_start, budget.samples)
        if stopping is not None:
            limits.early_stop = stopping.check_soon
        embedding = EmbeddingQueue(self.parts.encoder, retries.first_wait)
        if study.encoder is not None:
            embedding.time_limit = study.encoder.time_limit
        return Loop(
            session,
            arms,
            embedding,
            Money.of(
                budget.cost,
                self.journal.costs(),
                self.journal.largest_costs(),
                self.journal.cost_by_arm(),
            ),
            Clock(budget.time, self.journal.running_time()),
            limits,
            note=self.options.note,
        )

    def _complete(self, session: Session, loop: Loop) -> dict[str, Any]:
        exhausted = [label for label in self.study.arms if loop.arms[label].exhausted]
        found = completion(
            session.selector, session.selector.warm_start, exhausted, self.study.budget
        )
        complete_mixture(session, found)
        return found

    async def _run_loop(self, live: Live) -> Exception | None:
        """Run the loop, and return the first error that a callback raised.

        After such an error, the run stops once the samples in flight are told.
        """
        loop, errors = live.loop, list[Exception]()
        kept_so_far = KeptSoFar(self.study, live.folder)

        def report() -> None:
            live.timeline.update()
            if live.timeline.latest is not None and live.timeline.latest.score is not None:
                kept_so_far.update(live.told, live.selector.objective)
            for callback in self.options.callbacks:
                try:
                    callback(live)
                except Exception as error:
                    errors.append(error)
                    loop.stop(INTERRUPTED)

        def stop() -> None:
            generating = sum(arm.generating for arm in loop.arms.values())
            self.options.note(
                f"Stopping; waiting for samples that are being generated ({generating}). "
                "Press Ctrl-C again to stop immediately."
            )
            mark_stopping(live.folder)
            loop.stop(INTERRUPTED)

        loop.report = report
        namespace(np.empty(0))  # import what telling needs now, not while replies are arriving

        def stop_at_once() -> None:
            for generator in self.parts.generators.values():
                with suppress(Exception):  # it may be user code
                    generator.kill()
            self.options.hard_stop()

        with self.interrupts.handled(stop, stop_at_once):
            # Others read the event as "the run can be stopped", so the handlers are installed first.
            self.journal.event("start", genmix=__version__, pid=os.getpid())
            self.journal.record_time(lambda: loop.clock.elapsed)
            loop.restore()
            try:
                await loop.run()
            finally:
                kept_so_far.stop()
        return errors[0] if errors else None


class RemovedArm(Generator):
    """An arm that the study no longer contains; its samples that are already paid for are still told."""

    async def generate(self, requests: Sequence[Request]) -> Outcomes:
        for _ in ():
            yield _

    def available(self) -> int:
        return 0


def check_address(study: Study, address: str | None) -> None:
    """Refuse the address of a Ray cluster for a study that does not use Ray."""
    if address is not None and study.engine == "local":
        raise InputError(
            f"an address ({address}) is only used with Ray, but the engine is local; use the ray engine, or "
            "remove the address."
        )


def open_engine_of(study: Study, options: Options) -> AbstractContextManager[Engine]:
    """Connect to the place where the study's samples are generated, and disconnect at the end."""
    check_address(study, options.address)
    if study.engine != "local":
        options.note("connecting to Ray")
    start_limit = min(START_LIMIT, START_SHARE * study.retries.timeout)
    return closing(open_engine(study.engine, options.address, start_limit))


def warn_of_network(folder: Path, options: Options) -> None:
    """Say so if the run folder is on a network file system."""
    if (warning := network_warning(folder)) is not None:
        options.note(warning)


def copy_study(journal: Journal) -> None:
    """Write the study file into the run folder.

    The journal is written first: no matter when the process is killed, a folder with a journal is a run,
    and one without a journal can be used for a new run.
    """
    target, source = journal.path.with_name(STUDY), journal.meta("source")
    if source is not None and not target.exists():
        write_text(target, source)


def wrap_up(run: Run, options: Options) -> Run:
    """Write the report and finish the callbacks; errors become notes because the run is complete."""
    if options.report:
        with _errors_as_notes(options, f"try again with `genmix report {run.folder}`"):
            from genmix.report import write_report

            write_report(run.folder, progress=options.report_progress)
    for callback in options.callbacks:
        finish = getattr(callback, "finish", None)
        if finish is not None:
            with _errors_as_notes(options, "the run itself is complete"):
                finish(run)
    return run


@contextmanager
def _errors_as_notes(options: Options, advice: str) -> Iterator[None]:
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        options.note(f"error after the run: {quotable(error) or type(error).__name__}; {advice}")
