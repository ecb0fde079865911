"""What is wrong with a study, collected, and the words for it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from genmix.errors import InputError

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value of a study."""


class StudyError(InputError):
    """Everything that is wrong with a study, one sentence a line."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Faults:
    """Sentences by the path that they are about; what is said of a path first stands."""

    def __init__(self) -> None:
        self.found: dict[Path, str] = {}

    def __bool__(self) -> bool:
        return bool(self.found)

    def add(self, path: Path, sentence: str) -> None:
        self.found.setdefault(path, sentence)

    def take(self, others: Faults) -> None:
        """Add what others have found."""
        for path, sentence in others.found.items():
            self.add(path, sentence)

    def raise_by_path(self) -> None:
        """For a study that came as plain data: every sentence says which key it is about."""
        if self.found:
            told = [(dotted(path), sentence) for path, sentence in self.found.items()]
            raise StudyError([f"{path}: {words}" if path else words for path, words in told])


# -- words -------------------------------------------------------------------------------------------


def dotted(path: Path) -> str:
    """``arms.smol.model``, ``objective[1].precision``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{readable(part)}" for part in path)
    return "".join(parts).removeprefix(".")


def subject(path: Path) -> str:
    """What a map of settings is called: ``arm 'smol'``, ``the study``, ``budget``."""
    if len(path) > 1 and path[0] == "arms":
        label, rest = _label(path)
        return f"{dotted(rest)} of arm {label!r}" if rest else f"arm {label!r}"
    if path == ("encoder",):
        return "the encoder"
    return dotted(path) or "the study"


def _label(path: Path) -> tuple[str, Path]:
    """The arm that a path leads into, as it will be called, and the rest of the path."""
    label, rest = str(path[1]), path[2:]
    if len(rest) > 1 and rest[0] == "variants":
        return f"{label}/{rest[1]}", rest[2:]
    return label, rest


def shown(value: Any) -> str:
    """A value as a sentence can hold it."""
    if value is None or value in ("", [], {}):
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…{text[-1]}"


def readable(text: str) -> str:
    """Text without what would break a line or hide in it."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[:100])


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that somebody probably meant."""
    names = {_plain_name(each): each for each in known}
    found = difflib.get_close_matches(_plain_name(str(name)[:100]), names, n=1, cutoff=0.6)
    return names[found[0]] if found else None


def _plain_name(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")


def did_you_mean(name: object, known: Sequence[str], otherwise: str) -> str:
    """The end of a sentence about an unknown name."""
    close = nearest(name, known)
    return f"did you mean {close!r}?" if close else f"{otherwise}."
