"""Continue a run: as it is, with a larger budget, or with a changed study."""

from __future__ import annotations

import os
import re
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from genmix.core.atomic import sweep, write_text
from genmix.core.python_objects import missing_in
from genmix.core.streams import streams_of_version
from genmix.core.text import listed
from genmix.data.prompts import prompt_shares
from genmix.encoders.base import Encoder
from genmix.engines.base import Engine
from genmix.errors import InputError
from genmix.journal.images import IMAGES
from genmix.journal.integrity import verify
from genmix.journal.journal import Journal
from genmix.journal.lock import FolderLock
from genmix.journal.prompts import dimension_of_prompts, prompts_of
from genmix.journal.reader import JournalReader
from genmix.runs import prepare
from genmix.runs.changes import Change, Plain, changes_between, check_totals, comparable
from genmix.runs.execution import (
    STUDY,
    Execution,
    Options,
    copy_study,
    open_engine_of,
    warn_of_network,
    wrap_up,
)
from genmix.runs.interrupts import Interrupts
from genmix.runs.result import Run, complete_mixture, completion_in, is_finished, write_results
from genmix.runs.session import Session
from genmix.runs.spending.estimate import warnings_on_resume
from genmix.runs.spending.supply import check_supply
from genmix.selector.selector import Selector
from genmix.study.edited_text import text_with_budget
from genmix.study.study import Study, study_from, with_budget

ASKED = "budget of study"
"""The key of the budget in the last study that was passed, which later limits do not change."""


@dataclass(frozen=True)
class Update:
    """What should be different when a run continues; None keeps a setting as it is."""

    study: str | os.PathLike[str] | dict[str, Any] | Study | None = None
    samples: int | None = None
    cost: float | None = None
    time: float | str | None = None
    engine: str | None = None

    @property
    def limits(self) -> dict[str, Any]:
        """The new totals."""
        found = {"samples": self.samples, "cost": self.cost, "time": self.time}
        return {key: value for key, value in found.items() if value is not None}

    @property
    def is_empty(self) -> bool:
        return self.study is None and self.engine is None and not self.limits


def continue_run(folder: Path, options: Options, update: Update | None = None) -> Run:
    """Continue a run; nothing is written if the update is refused."""
    with JournalReader.open(folder) as found, found.snapshot():
        verify(found)  # fail before anything is changed
    interrupts = Interrupts()
    warn_of_network(folder, options)
    with FolderLock(folder, interrupts.are_received):
        for place in (folder, folder / IMAGES):
            sweep(place)
        with Journal.open(folder) as journal, streams_of_version(journal.meta("streams")):
            next_study = NextStudy.of(journal, options, update or Update())
            for line in next_study.plan.notes:
                options.note(line)
            if is_finished(journal) and not next_study.changes:
                next_study.record()
                run = _rewrite_results(journal, next_study.plan, options)
            else:
                with open_engine_of(next_study.plan.study, options) as engine:
                    run = _execute(next_study, options, interrupts, engine)
    return wrap_up(run, options)


def _execute(
    next_study: NextStudy, options: Options, interrupts: Interrupts, engine: Engine
) -> Run:
    plan, journal = next_study.plan, next_study.journal
    parts = prepare.Parts.build(plan, options.note, start_of(journal), engine)
    if next_study.changes:
        check_supply(plan.study, parts.generators, journal.told_counts())
    _check_encoder(journal, parts.encoder, options)
    for line in warnings_on_resume(
        plan.study, parts.generators, journal, is_changed=bool(next_study.changes)
    ):
        options.note(line)

    async def begin() -> Run:
        await prepare.ping_all({arm: parts.generators[arm] for arm in next_study.new_arms})
        next_study.record()
        for change in next_study.changes:
            options.note(change.sentence)
        _record_edited_sources(journal, plan, options)
        return await Execution(journal, plan.study, parts, options, interrupts).run()

    return interrupts.run(parts.closing(begin()))


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


def _record_edited_sources(journal: Journal, plan: prepare.Plan, options: Options) -> None:
    """Say that the files with the functions of arms were edited, and store the digests of all versions."""
    before, now = journal.meta(prepare.SOURCES), prepare.source_digests(plan)
    known = dict(before or {})
    edited = [arm for arm in now if arm in known and not known[arm].endswith(now[arm])]
    for arm in edited:
        why = "its source code has changed; earlier samples are kept"
        options.note(f"arm {arm}: {why}")
        journal.event("changed", arm, key=f"arms.{arm}.function", why=why)
    merged = now | {
        arm: f"{known[arm]} {now[arm]}" if arm in edited else known[arm] for arm in known
    }
    if before is not None and merged != known:
        journal.set_meta(prepare.SOURCES, merged)


def _without_source(name: str | None) -> str | None:
    """Remove the hash of a function's source from an encoder's name; it may change between sessions."""
    is_function = name is not None and name.startswith("callable ")
    return re.sub(r" #[0-9a-f]{12}\b", "", name) if name and is_function else name


def _rewrite_results(journal: Journal, plan: prepare.Plan, options: Options) -> Run:
    """Write the results of a finished run again, without building its arms."""
    study, base = plan.study, plan.base

    def make_selector() -> Selector:
        encoder = prepare.make_encoder(study, base, options.note)
        with nullcontext() if encoder is None else closing(encoder):
            return prepare.make_selector(study, base, encoder, options.note, start_of(journal))

    copy_study(journal)
    session = Session.at_end(journal, study.seed, make_selector, options.note)
    complete_mixture(session, completion_in(journal))
    return write_results(study, session)


def start_of(journal: JournalReader) -> prepare.Start:
    """Return the settings with which a run began; they are stored when the study first changes."""
    now = prepare.Start.of(study_from(journal.meta("study")))
    return prepare.Start(
        journal.meta("arms") or now.arms,
        journal.meta("shares") or now.shares,
        prompt_shares(prompts_of(journal)),
        dimension_of_prompts(journal),
    )


# -- the study with which a run continues ------------------------------------------------------------


@dataclass(frozen=True)
class NextStudy:
    """The study with which a run continues, and its differences from the one in the journal."""

    journal: Journal
    plan: prepare.Plan
    before: Plain
    """The study in the journal, in the form that is compared."""
    changes: list[Change]
    asked: Plain
    """The budget in the last study that was passed."""

    @classmethod
    def of(cls, journal: Journal, options: Options, update: Update) -> NextStudy:
        """Compare and check; raise InputError if the run cannot continue with this study."""
        base = _study_folder(journal, options)
        now = prepare.Plan(
            study_from(journal.meta("study")),
            base,
            journal.meta("source"),
            journal.meta("file"),
            prompts_of(journal),
        )
        plan, asked = now, journal.meta(ASKED) or _budget(now)
        if update.study is not None:
            given = _new_plan(update.study, now, journal)
            plan = _extended(given, now) if _budget(given) == asked else given
            asked = _budget(given)
        if update.limits or not is_finished(journal):
            _check_objects(plan.study, journal.path.parent)
        if update.limits:
            plan = _with_limits(plan, update.limits).with_prompts(now.prompts or None)
        plan = plan.with_engine(update.engine)
        _note_edited_copy(journal, plan, options)
        old, new = (comparable(p.study.plain(), p.base) for p in (now, plan))
        changes = changes_between(old, new, journal.meta("former arms") or {})
        if any(change.path[0] == "budget" for change in changes):
            check_totals(plan.study.budget, journal)
        if not changes and plan.source is None:
            plan = replace(plan, base=base, source=now.source, file=now.file)
        return cls(journal, plan, old, changes, asked)

    @property
    def new_arms(self) -> list[str]:
        return [label for label in self.plan.study.arms if label not in self.before["arms"]]

    def record(self) -> None:
        """Journal the changes, and make the study that of the run.

        The copy in the run folder is written first. If the process is killed in between, it reads as an
        edited copy that has no effect, which is true.
        """
        journal, plan = self.journal, self.plan
        is_same = not self.changes and plan.source == journal.meta("source")
        if is_same and self.asked == (journal.meta(ASKED) or self.asked):
            return
        target, before = journal.path.with_name(STUDY), journal.meta("source")
        source = plan.source
        if source is None and before is not None:
            source = yaml.safe_dump(plan.study.plain(), sort_keys=False, allow_unicode=True)
        if source is not None and _text_of(target) in (None, before):
            write_text(target, source)
        start = start_of(journal)
        arms, known = plan.study.arms, (journal.meta("former arms") or {}) | self.before["arms"]
        meta = {
            "study": plan.study.plain(),
            "source": source,
            "folder": str(plan.base.resolve()),
            "home": str(journal.path.parent.resolve()),
            "file": plan.file,
            "arms": start.arms,
            "shares": start.shares,
            "former arms": {label: known[label] for label in known if label not in arms},
            ASKED: self.asked,
        }
        journal.changed(((change.arm, change.detail()) for change in self.changes), meta)


def _new_plan(
    study: str | os.PathLike[str] | dict[str, Any] | Study, now: prepare.Plan, journal: Journal
) -> prepare.Plan:
    """Read a new study for a run, which keeps its name.

    The paths in a dict are relative to the folder in which the run was started, and those in the copy in the
    run folder to the folder of the study that it is a copy of.
    """
    plan = prepare.Plan.of(study, prompts=now.prompts or None)
    is_copy = isinstance(study, str | os.PathLike) and (
        Path(study).resolve() == journal.path.with_name(STUDY).resolve()
    )
    if is_copy or plan.source is None:
        plan = replace(plan, base=now.base, file=now.file)
    return replace(plan, study=plan.study.model_copy(update={"name": now.study.name}))


def _budget(plan: prepare.Plan) -> Plain:
    return plan.study.budget.model_dump(mode="json")


def _extended(given: prepare.Plan, now: prepare.Plan) -> prepare.Plan:
    """Return a study with the limits that the run got since this budget was passed."""
    before = _budget(given)
    limits = {key: v for key, v in _budget(now).items() if v is not None and v != before[key]}
    return _with_limits(given, limits) if limits else given


def _check_objects(study: Study, folder: Path) -> None:
    """Refuse to continue without the Python objects of a study."""
    labels = [each.label for each in missing_in(study)]
    if labels:
        raise InputError(
            f"the study of {folder} contains Python objects ({listed(dict.fromkeys(labels))}), which a "
            f"journal cannot store; pass the same study: gx.resume({str(folder)!r}, study=study)."
        )


def _with_limits(plan: prepare.Plan, limits: dict[str, Any]) -> prepare.Plan:
    study = with_budget(plan.study, limits)
    new = study.budget.model_dump(include=set(limits))
    source = None if plan.source is None else text_with_budget(plan.source, new)
    return replace(plan, study=study, source=source)


def _study_folder(journal: Journal, options: Options) -> Path:
    """Return the folder with the study's files; if the run was moved, report this once."""
    found, home = journal.study_folder(), str(journal.path.parent.resolve())
    if journal.meta("home") not in (None, home):
        options.note(f"the run was moved; using the study files in {found}")
        journal.set_meta("folder", str(found))
        journal.set_meta("home", home)
    return found


def _note_edited_copy(journal: Journal, plan: prepare.Plan, options: Options) -> None:
    """Say that a copy of the study was edited, unless it is what the run continues with."""
    path = journal.path.with_name(STUDY)
    if _text_of(path) not in (None, journal.meta("source"), plan.source):
        options.note(
            f"{path} was edited, which has no effect; apply it with "
            f"`genmix resume {path.parent} --study {path}`"
        )


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return None
