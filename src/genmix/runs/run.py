"""Start, resume and watch runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from genmix import __version__
from genmix.core.arrays import namespace
from genmix.core.atomic import make_folder, sweep, write_text
from genmix.core.optional import in_notebook
from genmix.core.streams import streams_of_version
from genmix.core.text import quotable
from genmix.encoders.base import Encoder
from genmix.errors import GenmixError, InputError
from genmix.journal.integrity import verify
from genmix.journal.journal import Journal
from genmix.journal.lock import LOCK, FolderLock, mark_stopping
from genmix.journal.reader import JournalReader
from genmix.journal.schema import JOURNAL
from genmix.runs import prepare
from genmix.runs.arm import ArmState
from genmix.runs.budget import Clock, EarlyStopping, Limits, Money
from genmix.runs.embedding import EmbeddingQueue
from genmix.runs.interrupts import Interrupts
from genmix.runs.loop import INTERRUPTED, Loop
from genmix.runs.references import Note
from genmix.runs.result import Run, write_results
from genmix.runs.retries import Retries
from genmix.runs.session import IMAGES, Session
from genmix.runs.timeline import Live, Timeline
from genmix.selector.selector import Selector
from genmix.study.study import Study, study_from

STUDY = "study.yaml"
REPORT = "GENMIX_REPORT"
"""An environment variable; set it to ``off`` to skip the report at the end of a run."""

Callback = Callable[[Live], None]
"""A function that is called with the running study after every event."""


@dataclass
class Options:
    """Options for watching and ending a run."""

    callbacks: Sequence[Callback] = ()
    note: Note = lambda line: None
    hard_stop: Callable[[], None] = lambda: None
    """Called on the second Ctrl-C."""
    report: bool = field(default_factory=lambda: os.environ.get(REPORT) != "off")
    """Whether to write the report at the end."""


# -- public functions --------------------------------------------------------------------------------


def run(
    study: str | os.PathLike[str] | dict[str, Any] | Study,
    out: str | os.PathLike[str] | None = None,
    *,
    callbacks: Sequence[Callback] = (),
    note: Note = lambda line: None,
    progress: bool | None = None,
) -> Run:
    """Run a study until its budget is spent.

    The run asks the selector for an arm, generates and embeds a sample, tells the selector, and repeats.
    Every step is journaled in the run folder, so that an interrupted run can be resumed. At the end, the
    folder contains the data set, the weights, a summary and a report.

    Parameters
    ----------
    study : str, path, dict or Study
        A study file, a dict with the same keys (which can contain Python functions), or a Study.
    out : str or path, optional
        The run folder, which must be new or empty. Default: ``runs/NAME``.
    callbacks : sequence of callables, optional
        Each is called with the running study after every event. If it has a ``finish`` method, that
        method is called with the finished run.
    note : callable, optional
        Called with progress messages, e.g. ``print``.
    progress : bool, optional
        Whether to show a live view. Default: in notebooks only.

    Returns
    -------
    Run
        The finished run, or an interrupted one after Ctrl-C.

    Raises
    ------
    InputError
        If the study is invalid or cannot start. In this case, nothing is written.
    StorageError
        If the run folder cannot be written, e.g. because the disk is full.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import genmix as gx
    >>> folder = tempfile.TemporaryDirectory()
    >>> arms = {}
    >>> for seed, arm in enumerate(("cats", "dogs")):
    ...     points = np.random.default_rng(seed).normal(size=(100, 4))
    ...     np.save(f"{folder.name}/{arm}.npy", points)
    ...     arms[arm] = {"kind": "recorded", "path": f"{folder.name}/{arm}.npy"}
    >>> study = {"arms": arms, "objective": "vendi", "budget": {"samples": 60}}
    >>> run = gx.run(study, f"{folder.name}/run")
    >>> run.status
    'finished'
    >>> sum(run.counts.values())
    60
    >>> folder.cleanup()
    """
    plan = prepare.Plan.of(study)
    folder = Path(out) if out is not None else Path("runs") / plan.study.name
    with _progress_view(progress) as views:
        return start(plan, folder, Options([*views, *callbacks], note))


def resume(
    folder: str | os.PathLike[str],
    *,
    callbacks: Sequence[Callback] = (),
    note: Note = lambda line: None,
    progress: bool | None = None,
) -> Run:
    """Continue a run that was interrupted, killed or stopped by an error.

    Samples that were already generated are never generated or paid for again. If the run is finished,
    only its results are written again.

    Parameters
    ----------
    folder : str or path
        The run folder.
    callbacks, note, progress
        As for :func:`genmix.run`.

    Returns
    -------
    Run

    Raises
    ------
    InputError
        If the folder is not a run folder, is in use, or its study cannot start.
    StorageError
        If the journal is corrupt or the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import genmix as gx
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(f"{folder.name}/cats.npy", np.random.default_rng(0).normal(size=(100, 4)))
    >>> arms = {"cats": {"kind": "recorded", "path": f"{folder.name}/cats.npy"}}
    >>> study = {"arms": arms, "objective": "vendi", "budget": {"samples": 60}}
    >>> def stop(live):
    ...     if live.told == 30:
    ...         live.loop.stop("interrupted")
    >>> gx.run(study, f"{folder.name}/run", callbacks=[stop]).status
    'interrupted'
    >>> run = gx.resume(f"{folder.name}/run")
    >>> run.status, run.counts
    ('finished', {'cats': 60})
    >>> folder.cleanup()
    """
    with _progress_view(progress) as views:
        return continue_run(Path(folder), Options([*views, *callbacks], note))


@contextmanager
def _progress_view(progress: bool | None) -> Iterator[list[Callback]]:
    """Provide the live view for a notebook or a terminal, if requested."""
    if in_notebook() and progress is not False:
        from genmix.cli.live_notebook import NotebookView

        yield [NotebookView()]
    elif progress:
        from rich.console import Console

        from genmix.cli.live_terminal import make_view

        with make_view(Console(stderr=True)) as view:
            yield [view]
    else:
        yield []


def is_finished(folder: Path) -> bool:
    """Return whether a run has spent its budget; False if its journal cannot be read."""
    with suppress(GenmixError), JournalReader.open(folder) as journal:
        return _is_finished(journal)
    return False


def _is_finished(journal: JournalReader) -> bool:
    return any(event["kind"] == "finished" for event in journal.events())


# -- starting ----------------------------------------------------------------------------------------


def start(plan: prepare.Plan, folder: Path, options: Options) -> Run:
    """Start a new run in ``folder``. Nothing is written there if the study cannot start."""
    if (folder / JOURNAL).exists():
        raise InputError(
            f"{folder} already contains a run; continue it with `genmix resume {folder}`, "
            "or choose another folder."
        )
    _check_empty(folder)
    parts = prepare.Parts.build(plan.study, plan.base, options.note)
    prepare.check_supply(plan.study, parts.generators)
    prepare.load_encoder(parts.selector.objective, parts.encoder, options.note)
    interrupts = Interrupts()

    async def begin() -> Run:
        await prepare.ping_all(parts.generators)
        make_folder(folder)
        with FolderLock(folder, interrupts.are_received):
            _check_empty(folder)
            with Journal.create(folder, prepare.metadata(plan, folder, parts.encoder)) as journal:
                return await _Execution(journal, plan.study, parts, options, interrupts).run()

    return _wrap_up(interrupts.run(parts.closing(begin())), options)


def _check_empty(folder: Path) -> None:
    """Refuse a folder that contains files, except for those that a failed start leaves behind."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; choose a new one for the run.")
    for path in folder.iterdir():
        if path.name != LOCK and not path.name.startswith(f"{JOURNAL}.part"):
            raise InputError(
                f"{folder} contains other files ({path.name}); choose a new or empty folder for the run."
            )


# -- resuming ----------------------------------------------------------------------------------------


def continue_run(folder: Path, options: Options) -> Run:
    with JournalReader.open(folder) as found, found.snapshot():
        verify(found)  # fail before anything is changed
    interrupts = Interrupts()
    with FolderLock(folder, interrupts.are_received):
        for place in (folder, folder / IMAGES):
            sweep(place)
        with Journal.open(folder) as journal, streams_of_version(journal.meta("streams")):
            study, base = study_from(journal.meta("study")), _study_folder(journal, options)
            if _is_finished(journal):
                run = _rewrite_results(journal, study, base, options)
            else:
                parts = prepare.Parts.build(study, base, options.note)
                _check_encoder(journal, parts.encoder, options)
                execution = _Execution(journal, study, parts, options, interrupts)
                run = interrupts.run(parts.closing(execution.run()))
    return _wrap_up(run, options)


def _study_folder(journal: Journal, options: Options) -> Path:
    """Return the folder with the study's files; if the run was moved, report this once."""
    found, home = journal.study_folder(), str(journal.path.parent.resolve())
    if journal.meta("home") not in (None, home):
        options.note(f"the run was moved; using the study files in {found}")
        journal.set_meta("folder", str(found))
        journal.set_meta("home", home)
    return found


def _check_encoder(journal: Journal, encoder: Encoder | None, options: Options) -> None:
    before, now = journal.meta("encoder"), None if encoder is None else encoder.name
    if before == now:
        return
    if _without_source(before) != _without_source(now):
        raise InputError(
            f"the run was embedded with {before}, but the study now has {now}; use the same encoder."
        )
    options.note("the encoder's source code has changed; earlier samples keep their embeddings")
    journal.set_meta("encoder", now)


def _without_source(name: str | None) -> str | None:
    """Remove the hash of a function's source from an encoder's name; it may change between sessions."""
    is_function = name is not None and name.startswith("callable ")
    return re.sub(r" #[0-9a-f]{12}\b", "", name) if name and is_function else name


def _rewrite_results(journal: Journal, study: Study, base: Path, options: Options) -> Run:
    """Write the results of a finished run again, without building its arms."""

    def make_selector() -> Selector:
        encoder = prepare.make_encoder(study, base, options.note)
        with nullcontext() if encoder is None else closing(encoder):
            return prepare.make_selector(study, base, encoder, options.note)

    _copy_study(journal)
    return write_results(study, Session.at_end(journal, study.seed, make_selector, options.note))


# -- executing ---------------------------------------------------------------------------------------


@dataclass
class _Execution:
    """One session of a run: continues from the end of the journal and writes the results."""

    journal: Journal
    study: Study
    parts: prepare.Parts
    options: Options
    interrupts: Interrupts

    async def run(self) -> Run:
        _copy_study(self.journal)
        session = Session(self.parts.selector, self.journal, self.study.seed, self.options.note)
        rule = self.study.stop_when
        stopping = None if rule is None else EarlyStopping(rule, session)
        session.restore(None if stopping is None else stopping.check)
        loop = self._make_loop(session, stopping)
        live = Live(self.study, self.journal.path.parent, loop, Timeline(session))
        error = await self._run_loop(live)
        if not loop.can_resume:
            loop.complete_mixture()
        live.timeline.write()
        why = loop.trouble or loop.reason
        kind = "trouble" if loop.trouble else "interrupted" if why == INTERRUPTED else "finished"
        self.journal.event(kind, why=why)
        session.save_snapshot(at_once=True)
        run = write_results(self.study, session)
        if error is not None:
            raise error
        return run

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
        most = prepare.max_samples(study)
        limits = Limits(most, study.in_flight, retries.give_up, study.warm_start)
        if stopping is not None:
            limits.early_stop = stopping.check
        embedding = EmbeddingQueue(self.parts.encoder, retries.first_wait)
        if study.encoder is not None:
            embedding.time_limit = study.encoder.time_limit
        return Loop(
            session,
            arms,
            embedding,
            Money.of(budget.cost, self.journal.costs(), self.journal.largest_costs()),
            Clock(budget.time, self.journal.running_time()),
            limits,
        )

    async def _run_loop(self, live: Live) -> Exception | None:
        """Run the loop, and return the first error that a callback raised.

        After such an error, the run stops once the samples in flight are told.
        """
        loop, errors = live.loop, list[Exception]()

        def report() -> None:
            live.timeline.update()
            for callback in self.options.callbacks:
                try:
                    callback(live)
                except Exception as error:
                    errors.append(error)
                    loop.stop(INTERRUPTED)

        def stop() -> None:
            in_flight = len(live.selector.in_flight)
            self.options.note(
                f"Stopping; waiting for samples in flight ({in_flight}). "
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
            await loop.run()
        return errors[0] if errors else None


def _copy_study(journal: Journal) -> None:
    """Write the study file into the run folder.

    The journal is written first: no matter when the process is killed, a folder with a journal is a run,
    and one without a journal can be used for a new run.
    """
    target, source = journal.path.with_name(STUDY), journal.meta("source")
    if source is not None and not target.exists():
        write_text(target, source)


def _wrap_up(run: Run, options: Options) -> Run:
    """Write the report and finish the callbacks; errors become notes because the run is complete."""
    if options.report:
        with _errors_as_notes(options, f"try again with `genmix report {run.folder}`"):
            run.report()
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
