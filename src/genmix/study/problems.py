"""Collect the problems in a study by key, and describe them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from genmix.core.text import quotable
from genmix.errors import InputError

KeyPath = tuple[str | int, ...]
"""Path to a value in a study: keys and list indices."""


class StudyError(InputError):
    """A study is invalid. The message lists all problems, one sentence per line.

    Attributes
    ----------
    problems : tuple of str
        One sentence per problem.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Problems:
    """Problems by key path. Only the first problem for each path is kept."""

    def __init__(self) -> None:
        self.by_path: dict[KeyPath, str] = {}

    def __bool__(self) -> bool:
        return bool(self.by_path)

    def add(self, path: KeyPath, sentence: str) -> None:
        self.by_path.setdefault(path, sentence)

    def raise_if_any(self) -> None:
        """Raise a ``StudyError`` in which each sentence starts with its key path."""
        if self.by_path:
            found = [(dotted(path), sentence) for path, sentence in self.by_path.items()]
            raise StudyError([f"{path}: {words}" if path else words for path, words in found])


# -- words -------------------------------------------------------------------------------------------


def dotted(path: KeyPath) -> str:
    """Format a key path, e.g. ``arms.smol.model`` or ``objective[1].precision``."""
    parts = (f"[{p}]" if isinstance(p, int) else f".{quotable(p, most=100)}" for p in path)
    return "".join(parts).removeprefix(".")


def subject(path: KeyPath) -> str:
    """Describe a key path for use in a sentence, e.g. ``batch of arm 'smol'`` or ``k of precision``."""
    if path[:1] == ("arms",) and len(path) > 1:
        label, rest = str(path[1]), path[2:]
        if len(rest) > 1 and rest[0] == "variants":
            label, rest = f"{label}/{rest[1]}", rest[2:]
        return f"{dotted(rest)} of arm {label!r}" if rest else f"arm {label!r}"
    if path[:1] in (("objective",), ("policy",)):
        return _subject_of_component(path)
    return "the encoder" if path == ("encoder",) else dotted(path) or "the study"


def _subject_of_component(path: KeyPath) -> str:
    rest = path[2:] if len(path) > 1 and isinstance(path[1], int) else path[1:]
    if not rest:
        return dotted(path)
    name, *keys = rest
    while len(keys) > 1 and keys[0] == "kernel":
        _, name, *keys = keys
    return f"{dotted(tuple(keys))} of {dotted((name,))}" if keys else dotted((name,))


def shown(value: Any) -> str:
    """Format a value for use in a sentence."""
    if value is None or value in ("", [], {}):
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…{text[-1]}"


def nearest(name: object, known: Iterable[str]) -> str | None:
    """Return the known name closest to ``name``, or None if none is close."""
    names = {_normalized(each): each for each in known}
    typed = _normalized(str(name)[:100])
    found = difflib.get_close_matches(typed, names, n=5, cutoff=0.6)
    swapped = [each for each in found if sorted(each) == sorted(typed)]  # modle: model, not mode
    return names[(swapped or found)[0]] if found else None


def _normalized(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")


def did_you_mean(name: object, known: Iterable[str], otherwise: str) -> str:
    """Return the second half of a sentence about an unknown name."""
    close = nearest(name, known)
    return f"did you mean {close!r}?" if close else f"{otherwise}."
