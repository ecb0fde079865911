"""Runs: start one, go on with one, and look at one."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genmix import __version__
from genmix.core.atomic import make_folder, sweep, write_text
from genmix.core.text import quotable
from genmix.data.samples import Sample
from genmix.encoders.base import Encoder
from genmix.errors import GenmixError, InputError
from genmix.generators.base import Generator
from genmix.runs import prepare
from genmix.runs.arm import ArmState
from genmix.runs.budget import Clock, Money
from genmix.runs.images import FOLDER as IMAGES
from genmix.runs.images import read_image
from genmix.runs.interrupts import Interrupts
from genmix.runs.journal import NAME as JOURNAL
from genmix.runs.journal import Journal, embedding_of
from genmix.runs.lock import NAME as LOCK
from genmix.runs.lock import FolderLock, say_stopping
from genmix.runs.loop import INTERRUPTED, Limits, Loop
from genmix.runs.result import Run, write_results
from genmix.runs.session import Session
from genmix.runs.stopping import Watch
from genmix.runs.timeline import Timeline
from genmix.selector.selector import Selector
from genmix.study.config import Study, read_study, study_from

STUDY = "study.yaml"
REPORT = "GENMIX_REPORT"
"""A variable of the environment: ``off`` leaves the report at the end of a run out."""

Callback = Callable[["Live"], None]
"""Called with the running study after everything that happened to it."""


@dataclass
class Live:
    """A study while it runs, for those who watch it; looking changes nothing."""

    study: Study
    folder: Path
    loop: Loop
    timeline: Timeline

    @property
    def selector(self) -> Selector:
        return self.loop.session.selector

    @property
    def told(self) -> int:
        return sum(self.selector.counts.values())


@dataclass
class Options:
    """What a caller may want of a run beside the study itself."""

    callbacks: Sequence[Callback] = ()
    note: prepare.Note = lambda line: None
    hard_stop: Callable[[], None] = lambda: None
    """What a second Ctrl-C does at once."""
    report: bool = field(default_factory=lambda: os.environ.get(REPORT) != "off")
    """Whether to write the report at the end."""


def run(
    study: str | os.PathLike[str] | dict[str, Any] | Study,
    out: str | os.PathLike[str] | None = None,
    *,
    callbacks: Sequence[Callback] = (),
    note: prepare.Note = lambda line: None,
    progress: bool | None = None,
) -> Run:
    """Run a study to the end of its budget and give back the finished run.

    ``study`` is a YAML file, a dict with the same content, or a Study; ``out`` the run folder, by default
    ``runs/NAME``. ``callbacks`` are called after every event with the :class:`Live` study; one that has a
    method ``finish`` gets the run at the end. ``progress`` shows how it goes; if None, in notebooks only.
    """
    plan, base, source, file = _plan(study)
    folder = Path(out) if out is not None else Path("runs") / plan.name
    with _shown(progress) as views:
        return start(plan, base, folder, source, Options([*views, *callbacks], note), file)


def resume(
    folder: str | os.PathLike[str],
    *,
    callbacks: Sequence[Callback] = (),
    note: prepare.Note = lambda line: None,
    progress: bool | None = None,
) -> Run:
    """Go on with a run that was interrupted, killed or stopped by trouble."""
    with _shown(progress) as views:
        return go_on(Path(folder), Options([*views, *callbacks], note))


@contextmanager
def _shown(progress: bool | None) -> Iterator[list[Callback]]:
    """What shows a run while it goes on, in a notebook or in a terminal."""
    from genmix.cli.notebook import NotebookView, in_notebook

    if in_notebook() and progress is not False:
        yield [NotebookView()]
    elif progress:
        from rich.console import Console

        from genmix.cli.view import make_view

        with make_view(Console(stderr=True)) as view:
            yield [view]
    else:
        yield []


def start(
    plan: Study,
    base: Path,
    folder: Path,
    source: str | None,
    options: Options,
    file: str | None = None,
) -> Run:
    """A new run in ``folder``; nothing is left there if the study cannot begin.

    ``source`` is the text of the study's ``file`` in the folder ``base``, if it is in one.
    """
    if (folder / JOURNAL).exists():
        raise InputError(
            f"{folder} holds a run already: 'genmix resume {folder}' goes on with it; "
            "or name another folder."
        )
    _check_empty(folder)
    parts = _Parts.of(plan, base, options.note)
    prepare.check_supply(plan, parts.generators)
    prepare.load_encoder(parts.selector.objective, parts.encoder, options.note)

    interrupts = Interrupts()

    async def begin() -> Run:
        await prepare.ping_all(parts.generators)
        make_folder(folder)
        with FolderLock(folder, interrupts.are_heard):
            _check_empty(folder)
            meta = {
                "run": uuid.uuid4().hex,
                "genmix": __version__,
                "study": plan.plain(),
                "source": source,
                "folder": str(base.resolve()),
                "home": str(folder.resolve()),
                "file": file,
                "encoder": None if parts.encoder is None else parts.encoder.name,
            }
            with closing(Journal.create(folder, meta)) as journal:
                return await _drive(journal, plan, parts, folder, options, interrupts)

    return _rounded_off(interrupts.carry_out(parts.closing(begin())), options)


def _check_empty(folder: Path) -> None:
    """A run never mixes with other files; what a start that failed left behind does not count."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: name a new one for the run.")
    others = [path.name for path in folder.iterdir() if not _is_leftover(path)]
    if others:
        raise InputError(
            f"{folder} holds other files ({others[0]}): name a new or empty folder for the run."
        )


def _is_leftover(path: Path) -> bool:
    return path.name == LOCK or path.name.startswith(f"{JOURNAL}.part")


def go_on(folder: Path, options: Options) -> Run:
    """The rest of a run."""
    Journal.open(folder, readonly=True).close()  # says what is wrong before anything is touched
    interrupts = Interrupts()
    with FolderLock(folder, interrupts.are_heard):
        for place in (folder, folder / IMAGES):
            sweep(place)
        with closing(Journal.open(folder)) as journal:
            plan, base = study_from(journal.meta("study")), _study_folder(journal, options)
            if _is_finished(journal):  # nothing more is made, whatever the study says
                run = _written_again(journal, plan, base, folder, options)
            else:
                parts = _Parts.of(plan, base, options.note)
                _check_encoder(journal, parts.encoder, options)
                work = _drive(journal, plan, parts, folder, options, interrupts)
                run = interrupts.carry_out(parts.closing(work))
    return _rounded_off(run, options)


def _study_folder(journal: Journal, options: Options) -> Path:
    """Where the study's files are; a run that lies elsewhere than before says so, once."""
    found, home = journal.study_folder(), str(journal.path.parent.resolve())
    if journal.meta("home") not in (None, home):
        options.note(
            f"the run is in another place than before: the study's files are those in {found}"
        )
        journal.set_meta("folder", str(found))
        journal.set_meta("home", home)
    return found


def _written_again(
    journal: Journal, plan: Study, base: Path, folder: Path, options: Options
) -> Run:
    """The results of a finished run, for which its arms need not be there any more."""

    def make() -> Selector:
        encoder = prepare.make_encoder(plan, base, options.note)
        with nullcontext() if encoder is None else closing(encoder):
            return prepare.make_selector(plan, base, encoder, options.note)

    _lay_out_study(journal, folder)
    return write_results(folder, plan, Session.at_end(journal, plan.seed, make))


def _rounded_off(run: Run, options: Options) -> Run:
    """What follows a run: its report, and the end of those who watched. Nothing here can spoil it."""
    if options.report:
        with _told(options, f"'genmix report {run.folder}' tries again"):
            run.report()
    for callback in options.callbacks:
        finish = getattr(callback, "finish", None)
        if finish is not None:
            with _told(options, "the run itself is whole"):
                finish(run)
    return run


@contextmanager
def _told(options: Options, but: str) -> Iterator[None]:
    """What goes wrong inside is told in one line."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        options.note(f"after the run: {quotable(error) or type(error).__name__}; {but}")


def _check_encoder(journal: Journal, encoder: Encoder | None, options: Options) -> None:
    before, now = journal.meta("encoder"), None if encoder is None else encoder.name
    if before == now:
        return
    if _without_source(before) != _without_source(now):
        raise InputError(
            f"the run was encoded with {before} and this would use {now}: use the same encoder."
        )
    options.note("the encoder's source has changed since the run began: older embeddings stay")
    journal.set_meta("encoder", now)


def _without_source(name: str | None) -> str | None:
    """An encoder's name without the hash of a function's source, which people mend; weights they do not."""
    is_function = name is not None and name.startswith("callable ")
    return re.sub(r" #[0-9a-f]{12}\b", "", name) if name and is_function else name


@dataclass
class _Parts:
    """What a study is made of, built."""

    generators: dict[str, Generator]
    encoder: Encoder | None
    selector: Selector

    @classmethod
    def of(cls, plan: Study, base: Path, note: prepare.Note) -> _Parts:
        generators = prepare.make_generators(plan, base)
        encoder = prepare.make_encoder(plan, base, note)
        return cls(generators, encoder, prepare.make_selector(plan, base, encoder, note))

    async def closing(self, work: Coroutine[Any, Any, Run]) -> Run:
        try:
            return await work
        finally:
            await prepare.close_all(self.generators, self.encoder)


async def _drive(
    journal: Journal,
    plan: Study,
    parts: _Parts,
    folder: Path,
    options: Options,
    interrupts: Interrupts,
) -> Run:
    """Bring the selector to where the journal ends, run the loop, write the results."""
    _lay_out_study(journal, folder)
    session = Session(parts.selector, journal, plan.seed)
    watch = None if plan.stop_when is None else Watch(plan.stop_when, session)
    session.restore(None if watch is None else watch.enough)
    journal.event("start", genmix=__version__, pid=os.getpid())
    loop = _make_loop(plan, parts, session, folder, watch)
    journal.keep_time(lambda: loop.clock.elapsed)
    timeline = Timeline(session)
    broken = await _play(Live(plan, folder, loop, timeline), session, options, interrupts)
    loop.complete_mixture()
    timeline.write()
    why = loop.trouble or loop.reason
    kind = "trouble" if loop.trouble else "interrupted" if why == INTERRUPTED else "finished"
    journal.event(kind, why=why)
    session.save_snapshot(at_once=True)
    run = write_results(folder, plan, session)
    if broken is not None:
        raise broken
    return run


def _lay_out_study(journal: Journal, folder: Path) -> None:
    """The study's own words beside the journal, after which they come: a folder with a journal is a run,
    and one without is free, whenever the process was killed."""
    source = journal.meta("source")
    if source is not None and not (folder / STUDY).exists():
        write_text(folder / STUDY, source)


def is_finished(folder: Path) -> bool:
    """Whether a run has spent its budget; one that cannot be read is not."""
    with suppress(GenmixError):
        journal = Journal.open(folder, readonly=True)
        try:
            return _is_finished(journal)
        finally:
            journal.close()
    return False


def _is_finished(journal: Journal) -> bool:
    return any(event["kind"] == "finished" for event in journal.events())


async def _play(
    live: Live, session: Session, options: Options, interrupts: Interrupts
) -> Exception | None:
    """Run the loop; what a callback raised, once all that flew has been taken in."""
    loop, broken = live.loop, list[Exception]()

    def report() -> None:
        live.timeline.follow()
        for callback in options.callbacks:
            try:
                callback(live)
            except Exception as error:  # what flies is taken in first
                broken.append(error)
                loop.stop(INTERRUPTED)

    loop.report = report
    loop.take_up([(e, _sample_of(row, live.folder)) for e, row in session.journal.unfinished()])
    _look_back(loop, session)

    def stop() -> None:
        flying = len(session.selector.in_flight)
        options.note(f"stopping: {flying} in flight, Ctrl-C again to stop now")
        say_stopping(live.folder)
        loop.stop(INTERRUPTED)

    with interrupts.answered(stop, options.hard_stop):
        await loop.run()
    return broken[0] if broken else None


def _make_loop(
    plan: Study, parts: _Parts, session: Session, folder: Path, watch: Watch | None
) -> Loop:
    journal = session.journal
    arms = {
        label: ArmState(
            label,
            generator,
            plan.arms[label].concurrency,
            plan.arms[label].batch,
            plan.retries,
        )
        for label, generator in parts.generators.items()
    }
    enough = (lambda: None) if watch is None else watch.enough
    return Loop(
        session,
        arms,
        parts.encoder,
        Money.of(plan.budget.cost, journal.spent(), journal.largest_costs()),
        Clock(plan.budget.time, journal.running_time()),
        Limits(
            plan.budget.samples,
            plan.in_flight,
            plan.retries.give_up,
            plan.warm_start,
            plan.retries.first_wait,
            enough,
        ),
        folder,
    )


def _look_back(loop: Loop, session: Session) -> None:
    """Arms that an earlier session suspended are tried again at once, with what they were asked for and
    did not make, if there is any; those used up are not."""
    places = session.journal.places()
    for failure in session.journal.failures():
        if failure["ticket"] in loop.flying and failure["stage"] == "generate":
            loop.arms[failure["arm"]].remember(failure["ticket"], failure["cost"] is not None)
    for label, arm in loop.arms.items():
        available = arm.generator.available()
        if available is not None and places.get(label, 0) >= available:
            loop.mark_used_up(arm)
        elif label not in session.selector.arms and not arm.on_trial:
            arm.pauses = 1
            if arm.waiting:
                arm.on_trial = True
            else:
                arm.probe_at = 0.0


def _sample_of(row: dict[str, Any] | None, folder: Path) -> Sample | None:
    """A sample that an earlier session made and did not tell."""
    if row is None:
        return None
    return Sample(
        text=row["text"],
        image=None if row["image"] is None else read_image(folder, row["image"]),
        vector=None if row["embedding"] is None else embedding_of(row),
        prompt=row["prompt"],
        source=row["source"],
        quality=row["quality"],
        cost=row["cost"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
    )


def _plan(study: Any) -> tuple[Study, Path, str | None, str | None]:
    """The validated study, the folder that its paths are relative to, its text and its file there."""
    if isinstance(study, Study):
        return study, Path.cwd(), None, None
    if isinstance(study, dict):
        return study_from(study), Path.cwd(), None, None
    plan, path = read_study(study), Path(study).resolve()
    return plan, path.parent, path.read_text(encoding="utf-8"), path.name
