"""Compare the study of a run with a new one: which settings change, and which must not."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genmix.core.masking import mask
from genmix.core.python_objects import PythonObject
from genmix.core.text import counted, duration, number, shortened
from genmix.data.text_files import resolved
from genmix.errors import InputError
from genmix.journal.reader import JournalReader
from genmix.runs.spending.budget import ROUNDING
from genmix.study.problems import KeyPath, StudyError, dotted
from genmix.study.sections import Budget
from genmix.study.study import study_from

ADJUSTABLE = ("budget", "in_flight", "engine", "retries", "stop_when", "keep", "weights")
"""Sections of a study that can change during a run."""
ADJUSTABLE_OF_ARMS = (
    *("concurrency", "batch", "price", "cost", "timeout", "exhausted"),
    *("base_url", "api_key_env", "env", "device", "resources"),
)
"""Settings of arms that affect neither which samples they produce nor their order."""
ADJUSTABLE_OF_ENCODER = ("timeout", "batch", "base_url", "api_key_env", "device", "resources")
FILES = ("path", "prompts_file", "reference", "file")
"""Settings that are compared after their paths are resolved."""

Plain = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """A setting with different values in two studies; None if one of them does not have it."""

    path: KeyPath
    old: Any
    new: Any

    @property
    def arm(self) -> str | None:
        return str(self.path[1]) if self.path[0] == "arms" else None

    @property
    def is_allowed(self) -> bool:
        section, *rest = self.path
        if section == "arms":
            if rest[-1] == "function" and _is_edited_function(self.old, self.new):
                return True
            return len(rest) == 1 or rest[1] in ADJUSTABLE_OF_ARMS  # 1: it was added or removed
        if section == "encoder":
            return bool(rest) and rest[0] in ADJUSTABLE_OF_ENCODER
        if self.path[:2] == ("prompts", "encoder"):
            return rest[-1] in ADJUSTABLE_OF_ENCODER
        return section in ADJUSTABLE or self.path == ("prompts", "repeat")

    @property
    def refusal(self) -> str:
        advice = "give the changed arm a new label" if self.arm else "keep it, or start a new run"
        return (
            f"{dotted(self.path)} cannot change during a run: the run has {in_words(self.old)}, but the new "
            f"study has {in_words(self.new)}; {advice}."
        )

    def detail(self) -> dict[str, str]:
        """Return the change in words, for the journal."""
        old, new = in_words(self.old), in_words(self.new)
        why = f"{dotted(self.path)} is now {new}; it was {old}"
        if self.arm is not None and len(self.path) == 2:
            why = "removed from the study" if self.new is None else f"added to the study: {new}"
        return {"key": dotted(self.path), "old": old, "new": new, "why": why}

    @property
    def sentence(self) -> str:
        """The change in words, for a terminal."""
        why = shortened(self.detail()["why"], 300)
        return f"arm {self.arm}: {why}" if self.arm is not None and len(self.path) == 2 else why


def _is_edited_function(old: Any, new: Any) -> bool:
    """Return whether a function that was passed in Python has the same name, but other source code."""
    before, now = PythonObject.stored(old), PythonObject.stored(new)
    are_objects = isinstance(before, PythonObject) and isinstance(now, PythonObject)
    return are_objects and before.label == now.label


def in_words(value: Any) -> str:
    """Format a setting for a sentence, without secrets."""
    if value is None:
        return "none"
    return mask(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def changes_between(old: Plain, new: Plain, former: Mapping[str, Any]) -> list[Change]:
    """Return the changes from one plain study to another.

    ``former`` contains the settings of arms that were removed earlier; such an arm can only come back
    as it was.

    Raises
    ------
    StudyError
        If a setting changes that must not; one sentence per setting.
    """
    found = [c for c in _differences((), old, new) if c.path != ("name",)]
    back = {label: new["arms"][label] for label in former if label in new["arms"]}
    again = _differences(("arms",), {label: former[label] for label in back}, back)
    refused = [change.refusal for change in (*found, *again) if not change.is_allowed]
    if refused:
        raise StudyError(refused)
    return [*found, *again]


def _differences(path: KeyPath, old: Any, new: Any) -> Iterator[Change]:
    if path == ("policy",) or not isinstance(old, dict) or not isinstance(new, dict):
        if old != new:
            yield Change(path, old, new)
        return
    if old.get("kind") != new.get("kind"):  # its other settings cannot be compared
        yield Change((*path, "kind"), old.get("kind"), new.get("kind"))
        return
    for key in dict.fromkeys([*old, *new]):
        yield from _differences((*path, key), old.get(key), new.get(key))


def comparable(study: Plain, folder: Path) -> Plain:
    """Return a plain study with resolved paths, and with the defaults that older versions did not write."""
    with suppress(InputError):
        made = study_from(study)
        study = made.plain() | {"in_flight": made.in_flight}
    found: Plain = _resolve(study, folder)
    return found


def _resolve(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_resolve(item, folder) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: str(resolved(item, folder).resolve())
        if key in FILES and isinstance(item, str) and type(PythonObject.stored(item)) is str
        else _resolve(item, folder)
        for key, item in value.items()
    }


def check_totals(budget: Budget, journal: JournalReader) -> None:
    """Refuse a budget that is below what the run has already used.

    Raises
    ------
    InputError
        One sentence with the limit and what is used.
    """
    waiting = sum(sample is not None for _, sample in journal.open_tickets())
    samples = sum(journal.told_counts().values()) + waiting
    cost, seconds = math.fsum(journal.costs()), journal.running_time()
    if budget.samples is not None and budget.samples < samples:
        _refuse_total("samples", str(budget.samples), f"already has {counted(samples, 'sample')}")
    if budget.cost is not None and budget.cost * (1 + ROUNDING) < cost:
        _refuse_total("cost", number(budget.cost, 6), f"has already cost {number(cost, 6)}")
    if budget.time is not None and budget.time < seconds:
        _refuse_total("time", duration(budget.time), f"has already taken {duration(seconds)}")


def _refuse_total(key: str, limit: str, used: str) -> None:
    raise InputError(f"budget.{key} is {limit}, but the run {used}; pass a larger total.")
