"""Parse the text of a study file into plain data with line numbers.

YAML is parsed according to version 1.2: only ``true`` and ``false`` are booleans. Only decimal
numbers are recognized. Tags are rejected, so a file can contain only plain values.
"""

from __future__ import annotations

import math
import numbers
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from genmix.core.python_objects import PythonObject
from genmix.core.text import quotable
from genmix.errors import InputError
from genmix.study.problems import KeyPath, Problems, StudyError, shown, subject
from genmix.study.secrets import ADVICE, lines_with_secrets

STUDY = "study.yaml"
MAX_BYTES = 2**20
MAX_VALUES = 100_000
MAX_DEPTH = 50


class Position(NamedTuple):
    """A position in a file; lines and columns are numbered from 1."""

    line: int
    column: int

    @classmethod
    def of(cls, mark: Any) -> Position:
        return cls(1, 1) if mark is None else cls(mark.line + 1, mark.column + 1)


@dataclass(frozen=True)
class StudyFile:
    """The contents of a study file."""

    name: str
    """The file name shown in error messages."""
    text: str
    data: dict[str, Any]
    positions: dict[KeyPath, Position] = field(default_factory=dict)
    """Positions of all keys and list items."""

    def position(self, path: KeyPath) -> Position:
        """Return the position of a key path, or of its nearest ancestor in the file."""
        while path and path not in self.positions:
            path = path[:-1]
        return self.positions.get(path, Position(1, 1))

    def raise_if_any(self, problems: Problems) -> None:
        """Raise a ``StudyError`` that lists all problems with line numbers, sorted by line."""
        found = [(self.position(path), words) for path, words in problems.by_path.items()]
        lines = {position.line for position, _ in found}
        for line in lines_with_secrets(self.text):
            if line not in lines:  # the secret is in a comment or inside longer text
                found.append((Position(line, 1), f"this line contains a secret; {ADVICE}."))
        if found:
            raise _error(self.name, found)


def study_file(path: str | os.PathLike[str]) -> Path:
    """Return the study file; a folder stands for the ``study.yaml`` in it."""
    found = Path(path)
    if not found.is_dir():
        return found
    if not (found / STUDY).is_file():
        words = f"pass a study file, or write an example with 'genmix init {quotable(path)}'"
        raise StudyError([f"{quotable(path)} contains no {STUDY}; {words}."])
    return found / STUDY


def parse_study_file(path: str | os.PathLike[str]) -> StudyFile:
    """Read and parse a study file; raise ``StudyError`` unless it is a plain YAML mapping."""
    return parse_study_text(quotable(path), _read_text(Path(path)))


def parse_study_text(name: str, text: str) -> StudyFile:
    """Parse the text of a study file."""
    root = _compose(name, text)
    builder = _Builder(name)
    data = builder.build(root)
    return StudyFile(name, text, data, builder.positions)


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise StudyError(
            [f"no study found at {path}; check the path, or write an example with 'genmix init'."]
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        why = "it is a folder" if path.is_dir() else getattr(error, "strerror", None) or error
        raise StudyError([f"cannot read {quotable(path)} ({why}); pass a study file."]) from None
    if len(content) > MAX_BYTES:
        advice = f"keep a study below {MAX_BYTES} bytes and put long lists in separate files"
        raise StudyError([f"{path} has {len(content)} bytes; {advice}."])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        position = Position(content.count(b"\n", 0, error.start) + 1, 1)
        raise _error(str(path), [(position, "this is not UTF-8 text; save it as UTF-8.")]) from None


def _error(name: str, found: Iterable[tuple[Position, str]]) -> StudyError:
    return StudyError(
        [f"{name}, line {position.line}: {words}" for position, words in sorted(found)]
    )


def _too_large(name: str, node: Any) -> StudyError:
    words = f"the study expands to more than {MAX_VALUES} values; use fewer aliases and merges."
    return _error(name, [(Position.of(node.start_mark), words)])


# -- YAML --------------------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """Composes YAML nodes; rejects tags, deep nesting, too many values and undefined aliases."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.study, self.count, self.depth = name, 0, 0
        self.errors: list[tuple[Position, str]] = []

    def add_error(self, event: Any, words: str) -> None:
        self.errors.append((Position.of(event.start_mark), words))

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self.count += 1
        if self.count > MAX_VALUES:
            raise _too_large(self.study, event)
        if isinstance(event, yaml.AliasEvent):
            return self._compose_alias(event, parent, index)
        if event.tag is not None:
            self.add_error(event, f"the tag {quotable(event.tag)} is not allowed; remove it.")
        if self.depth > MAX_DEPTH:
            words = f"values are nested more than {MAX_DEPTH} levels deep; use fewer levels."
            raise _error(self.study, [(Position.of(event.start_mark), words)])
        self.anchors.pop(event.anchor, None)  # YAML 1.2 allows redefining an anchor
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def _compose_alias(self, event: Any, parent: Any, index: Any) -> Any:
        target = self.anchors.get(event.anchor)
        if (
            target is not None and target.end_mark is not None
        ):  # None: the alias is inside its target
            return super().compose_node(parent, index)
        self.get_event()  # type: ignore[no-untyped-call]
        name = quotable(event.anchor)
        words = (
            f"*{name} is used, but &{name} is not defined above it; define it, or quote the text."
        )
        self.add_error(event, words)
        return yaml.ScalarNode("", "", event.start_mark, event.end_mark)


def _compose(name: str, text: str) -> Any:
    """Return the root of the single document; raise ``StudyError`` unless it is a mapping."""
    try:
        loader: Any = _Loader(name, text)
        root = loader.get_node() if loader.check_node() else None
        if loader.check_node():
            words = (
                "a second document begins here, but a study is a single document; remove the '---'."
            )
            loader.add_error(loader.peek_event(), words)
    except StudyError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _error(name, [(Position.of(mark), _yaml_words(error))]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        words = f"the character {error.character:#x} is not allowed; remove it."
        raise _error(name, [(Position(line, 1), words)]) from None
    except (ValueError, OverflowError):
        words = "an escape sequence is not a valid character; correct the text after the backslash."
        raise _error(name, [(_position_of_escape(text), words)]) from None
    if root is None or (isinstance(root, yaml.ScalarNode) and _scalar(root) is None):
        raise StudyError([f"{name} is empty; write an example with 'genmix init'."])
    if not isinstance(root, yaml.MappingNode):
        what = "a list" if isinstance(root, yaml.SequenceNode) else "text"
        loader.add_error(root, f"the study is {what}; write keys and values, e.g. 'seed: 0'.")
    if loader.errors:
        raise _error(name, loader.errors)
    return root


def _position_of_escape(text: str) -> Position:
    """Return the position of the first invalid escape sequence, e.g. ``\\UFFFFFFFF``."""
    escapes = re.finditer(r"\\U([0-9A-Fa-f]{8})", text)
    bad = next((e.start() for e in escapes if int(e[1], 16) > sys.maxunicode), 0)
    return Position(text.count("\n", 0, bad) + 1, 1)


class _Builder:
    """Builds plain values from YAML nodes; expands aliases and merges, and records positions."""

    def __init__(self, name: str) -> None:
        self.name, self.count, self.merged = name, 0, 0
        self.positions: dict[KeyPath, Position] = {}
        self.errors: set[tuple[Position, str]] = set()
        self.entries: dict[int, dict[str, tuple[Any, Any]]] = {}
        """For each mapping node, by ID: its key and value nodes, by key."""

    def build(self, root: Any) -> Any:
        try:
            data = self._value(root, ())
        except RecursionError:  # a very long chain of merges
            raise _too_large(self.name, root) from None
        if self.errors:
            raise _error(self.name, self.errors)
        return data

    def _value(self, node: Any, path: KeyPath) -> Any:
        self.count += 1
        if self.count > MAX_VALUES or len(path) > 2 * MAX_DEPTH:
            raise _too_large(self.name, node)
        if isinstance(node, yaml.SequenceNode):
            return [self._child(path, i, item, item) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            entries = self._entries(node).items()
            return {key: self._child(path, key, where, item) for key, (where, item) in entries}
        value = _scalar(node)
        if isinstance(value, int | float) and not is_usable(value):
            self._add_error(node, f"{node.value[:40]} is out of range; {FINITE}")
        return value

    def _child(self, path: KeyPath, key: str | int, where: Any, node: Any) -> Any:
        self.positions[(*path, key)] = Position.of(where.start_mark)
        return self._value(node, (*path, key))

    def _add_error(self, node: Any, words: str) -> None:
        self.errors.add((Position.of(node.start_mark), words))

    def _entries(self, node: Any) -> dict[str, tuple[Any, Any]]:
        """Return the entries of a mapping, followed by the entries that it merges in with ``<<``."""
        if id(node) in self.entries:
            return self.entries[id(node)]
        own: dict[str, tuple[Any, Any]] = {}
        merged: list[Any] = []
        for key_node, value in node.value:
            key = _scalar(key_node)
            if key == "<<" and key_node.style is None:
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
            elif not isinstance(key, str):
                self._add_error(key_node, _key_words(key_node, key))
            elif key in own:
                line = Position.of(own[key][0].start_mark).line
                words = f"the key {shown(key)} is already on line {line}; remove one of them."
                self._add_error(key_node, words)
            else:
                own[key] = (key_node, value)
        for other in merged:
            if not isinstance(other, yaml.MappingNode):
                self._add_error(node, "<< needs a mapping; write an alias for one, e.g. *name.")
                continue
            entries = self._entries(other)
            self.merged += len(entries)
            if self.merged > MAX_VALUES:
                raise _too_large(self.name, node)
            own = own | {key: entry for key, entry in entries.items() if key not in own}
        return self.entries.setdefault(id(node), own)


def _key_words(node: Any, key: Any) -> str:
    if not isinstance(node, yaml.ScalarNode):
        what = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
        return f"a key is {what}; use text."
    if key is None:
        return "a key is empty; write a key before the colon."
    return f"the key {shown(key)} is not text; put it in quotes: '{shown(key)}'."


HINTS = {
    "mapping values are not allowed": "put text that contains a colon in quotes",
    r"character '\t'": "indent with spaces, not with tabs",
    "could not find expected ':'": "write 'key: value', with a space after the colon",
    "found unexpected end of stream": "close the quote",
    "expected <block end>": "indent the line like the other lines of its block",
    "expected ',' or": "close the bracket, or separate its values with commas",
    "that cannot start any token": "put text that begins with this character in quotes",
    "unknown escape character": "double the backslash, or use single quotes",
}
"""Advice, keyed by a substring of PyYAML's message."""


def _yaml_words(error: yaml.MarkedYAMLError) -> str:
    problem = str(error.problem or error.context)
    hint = next((hint for part, hint in HINTS.items() if part in problem), "correct this line")
    return f"this is not valid YAML ({problem}); {hint}."


# -- plain values ------------------------------------------------------------------------------------

NULL = re.compile(r"~|null|Null|NULL|")
BOOLEANS = {
    word: word.lower() == "true" for word in ["true", "True", "TRUE", "false", "False", "FALSE"]
}
INTEGER = re.compile(r"[-+]?[0-9]+")
DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
FINITE = "use a finite number below 9.2e18 (or the word inf for an infinite order)."


def _scalar(node: Any) -> Any:
    """Parse a scalar as in YAML 1.2, but only decimal numbers; return None for a list or mapping."""
    text = node.value
    if not isinstance(text, str):
        return None
    if node.style is not None:  # quoted, or a block of text
        return text
    if NULL.fullmatch(text):
        return None
    if text in BOOLEANS:
        return BOOLEANS[text]
    if INTEGER.fullmatch(text):
        return int(text) if len(text) < 30 else math.inf
    if DECIMAL.fullmatch(text):
        return float(text)
    return math.nan if NOT_FINITE.fullmatch(text) else text


def is_usable(value: float) -> bool:
    return math.isfinite(value) and (isinstance(value, float) or abs(value) < 2**63)


Written = Callable[[Any, KeyPath], Any]
"""A function that returns what stands for a Python object at its place in a study."""


def plain_data(data: Any, problems: Problems, written: Written = lambda value, path: value) -> Any:
    """Copy ``data`` into dicts, lists and JSON scalars; add a problem for anything else.

    ``written`` is called for every value first.
    """
    return _PlainCopy(problems, written).value(data, ())


class _PlainCopy:
    def __init__(self, problems: Problems, written: Written) -> None:
        self.problems, self.written, self.count = problems, written, 0

    def value(self, value: Any, path: KeyPath) -> Any:
        self.count += 1
        if self.count > MAX_VALUES or len(path) > 2 * MAX_DEPTH:
            raise StudyError(["the study is too large or contains itself; use plain nested dicts."])
        try:
            value = self.written(value, path)
        except InputError as error:
            self.problems.add(path, str(error))
            return None
        if isinstance(value, Mapping):
            return self._mapping(value, path)
        if isinstance(value, list | tuple):
            return [self.value(item, (*path, i)) for i, item in enumerate(value)]
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if isinstance(value, PythonObject):
            return value
        if isinstance(value, str):
            return self._text(str(value), path)
        if value is None or isinstance(value, bool):
            return value
        return self._number(value, path)

    def _mapping(self, value: Mapping[Any, Any], path: KeyPath) -> dict[str, Any]:
        found = {}
        for key, item in value.items():
            if isinstance(key, str):
                name = key if isinstance(key, PythonObject) else str(key)
                found[name] = self.value(item, (*path, name))
                self._text(name, (*path, name))
            else:
                words = f"the key {shown(key)} of {subject(path)} is not text; use a string."
                self.problems.add((*path, str(key)), words)
        return found

    def _text(self, text: str, path: KeyPath) -> str:
        if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
            words = f"{subject(path)} contains a character that a file cannot contain; remove it."
            self.problems.add(path, words)
            return ""
        return text

    def _number(self, value: Any, path: KeyPath) -> float | None:
        is_integer = isinstance(value, numbers.Integral)
        if not is_integer and not isinstance(value, numbers.Real):
            words = f"{subject(path)} is of type {type(value).__name__}; use text or a number."
            self.problems.add(path, words)
            return None
        found = int(value) if is_integer else float(value)
        if not is_usable(found):
            self.problems.add(path, f"{subject(path)} is {found}; {FINITE}")
            return None
        return found
