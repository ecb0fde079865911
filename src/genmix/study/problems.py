"""What is wrong with a study: problems collected by key, and the words to describe them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from genmix.core.text import quotable
from genmix.errors import InputError

KeyPath = tuple[str | int, ...]
"""The keys and list positions that lead to a value of a study."""


class StudyError(InputError):
    """A study is invalid; the message lists every problem, one sentence per line.

    Attributes
    ----------
    problems : tuple of str
        The sentences.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Problems:
    """Sentences by the key path they are about. The first one about a path is kept."""

    def __init__(self) -> None:
        self.by_path: dict[KeyPath, str] = {}

    def __bool__(self) -> bool:
        return bool(self.by_path)

    def add(self, path: KeyPath, sentence: str) -> None:
        self.by_path.setdefault(path, sentence)

    def raise_if_any(self) -> None:
        """Raise a ``StudyError`` in which every sentence starts with its key path."""
        if self.by_path:
            found = [(dotted(path), sentence) for path, sentence in self.by_path.items()]
            raise StudyError([f"{path}: {words}" if path else words for path, words in found])


# -- words -------------------------------------------------------------------------------------------


def dotted(path: KeyPath) -> str:
    """``arms.smol.model``, ``objective[1].precision``."""
    parts = (f"[{p}]" if isinstance(p, int) else f".{quotable(p, most=100)}" for p in path)
    return "".join(parts).removeprefix(".")


def subject(path: KeyPath) -> str:
    """How a sentence refers to a key path: ``batch of arm 'smol'``, ``k of precision``, ``budget``."""
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
    """A value as a sentence quotes it."""
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
    """The known name closest to ``name``, if one is close."""
    names = {_normalized(each): each for each in known}
    found = difflib.get_close_matches(_normalized(str(name)[:100]), names, n=1, cutoff=0.6)
    return names[found[0]] if found else None


def _normalized(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")


def did_you_mean(name: object, known: Iterable[str], otherwise: str) -> str:
    """The end of a sentence about an unknown name."""
    close = nearest(name, known)
    return f"did you mean {close!r}?" if close else f"{otherwise}."
