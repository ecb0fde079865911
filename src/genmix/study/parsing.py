"""From the text of a study to plain data that remembers where it stood.

YAML is read as version 1.2 means it: only true and false are booleans, only decimal digits are
numbers. Tags are refused, so that no text can make anything but plain values.
"""

from __future__ import annotations

import math
import numbers
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any, NamedTuple

import yaml

from genmix.study.problems import Faults, Path, StudyError, readable, shown, subject
from genmix.study.secrets import ADVICE, lines_with_secrets

LARGEST_FILE = 2**20
MOST_VALUES = 100_000
DEEPEST = 50


class Place(NamedTuple):
    """Where something stands in a file, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Source:
    """A study as it was written."""

    name: str
    """What errors call the file."""
    text: str
    data: dict[str, Any]
    places: dict[Path, Place] = field(default_factory=dict)
    """Of every key, and of every item of a list."""

    def place(self, path: Path) -> Place:
        """Of the path, or of what it would belong into."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Place(1, 1))

    def raise_by_line(self, faults: Faults) -> None:
        """Every sentence with its line, first line first."""
        found = [(self.place(path), words) for path, words in faults.found.items()]
        lines = {place.line for place, _ in found}
        for line in lines_with_secrets(self.text):
            if line not in lines:  # a comment, or within a text
                found.append((Place(line, 1), f"the line holds a secret: {ADVICE}."))
        if found:
            told = [f"{self.name}, line {place.line}: {words}" for place, words in sorted(found)]
            raise StudyError(told)


def read_source(path: str | os.PathLike[str]) -> Source:
    """The content of a study file."""
    text = _read_text(File(path))
    name = readable(str(path))
    root = _Reader(name, text).read()
    unfolded = _Unfolded(name)
    data = unfolded.value(root, ())
    return Source(name, text, data, unfolded.places)


def _read_text(path: File) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise StudyError([f"there is no study {path}: 'genmix init' writes an example."]) from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        why = "it is a folder" if path.is_dir() else getattr(error, "strerror", None) or error
        raise StudyError([f"{readable(str(path))} cannot be read ({why}): name a file."]) from None
    if len(content) > LARGEST_FILE:
        advice = f"keep a study below {LARGEST_FILE}, and long lists in files of their own"
        raise StudyError([f"{path} has {len(content)} bytes: {advice}."])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise StudyError(
            [f"{path}, line {line}: this is not UTF-8 text: save it as UTF-8."]
        ) from None


# -- YAML --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Node:
    """A value of the text: a scalar, a list of nodes, or a map from key to where it stands and node."""

    place: Place
    value: Any
    merge: bool = False
    """Whether it is the key ``<<``."""


class _Reader:
    """Builds nodes from the events of the YAML parser; faults are collected by line."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.events: Iterator[Any] = iter(yaml.parse(text, Loader=yaml.SafeLoader))
        self.anchors: dict[str, _Node] = {}
        self.faults: list[tuple[Place, str]] = []
        self.count = 0

    def read(self) -> _Node:
        """The one document, which is a map."""
        try:
            root = self._document()
        except StudyError:
            raise
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Place(1, 1) if mark is None else _place(mark)
            raise self._error([(place, _yaml_words(error))]) from None
        except yaml.reader.ReaderError as error:
            line = self.text.count("\n", 0, error.position) + 1
            words = f"the character {error.character:#x} is not allowed: leave it out."
            raise self._error([(Place(line, 1), words)]) from None
        except (ValueError, OverflowError):  # an escape such as \\UFFFFFFFF
            words = "an escaped character does not exist: mend the text after the backslash."
            raise self._error([(self._place_of_escape(), words)]) from None
        if self.faults:
            raise self._error(self.faults)
        return root

    def _place_of_escape(self) -> Place:
        escapes = re.finditer(r"\\U([0-9A-Fa-f]{8})", self.text)
        bad = next((e.start() for e in escapes if int(e[1], 16) > sys.maxunicode), 0)
        return Place(self.text.count("\n", 0, bad) + 1, 1)

    def _error(self, faults: list[tuple[Place, str]]) -> StudyError:
        return StudyError([f"{self.name}, line {p.line}: {words}" for p, words in sorted(faults)])

    def _document(self) -> _Node:
        root = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                self._fault(
                    event, "a second document begins: a study is one, write no '---' in it."
                )
            elif isinstance(event, yaml.NodeEvent):
                root = self._node(event, 0)
        if root is None or root.value is None:
            raise StudyError([f"{self.name} is empty: 'genmix init' writes an example."])
        if not isinstance(root.value, dict):
            what = "a list" if isinstance(root.value, list) else "text"
            self.faults.append(
                (root.place, f"the study is {what}: write keys and values, such as 'seed: 0'.")
            )
        return root

    def _fault(self, event: Any, words: str) -> None:
        self.faults.append((_place(event.start_mark), words))

    def _count(self, event: Any, more: int = 1) -> None:
        self.count += more
        if self.count > MOST_VALUES:
            _too_much(self.name, _place(event.start_mark))

    def _node(self, event: Any, depth: int) -> _Node:
        self._count(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.tag is not None:
            self._fault(event, f"the tag {readable(event.tag)} is not allowed: leave it out.")
        if depth > DEEPEST:
            place = _place(event.start_mark)
            raise self._error([(place, f"values are nested more than {DEEPEST} deep: write less.")])
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            items = [self._node(each, depth + 1) for each in self._until(yaml.SequenceEndEvent)]
            node = _Node(_place(event.start_mark), items)
        else:
            node = self._map(event, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _until(self, end: type) -> Iterator[Any]:
        for event in self.events:
            if isinstance(event, end):
                return
            yield event

    def _alias(self, event: Any) -> _Node:
        if event.anchor not in self.anchors:
            name = readable(event.anchor)
            self._fault(
                event, f"*{name} has no &{name} above it: define it, or put the text in quotes."
            )
        return self.anchors.get(event.anchor, _Node(_place(event.start_mark), None))

    def _scalar(self, event: Any) -> _Node:
        place = _place(event.start_mark)
        if not event.implicit[0]:  # in quotes, or a block of text
            return _Node(place, event.value)
        value = plain_scalar(event.value)
        if value is not None and not isinstance(value, str | bool) and not _is_usable(value):
            self._fault(event, f"{event.value[:40]} is no number that a study can hold: {FINITE}")
        return _Node(place, value, merge=event.value == "<<")

    def _map(self, event: Any, depth: int) -> _Node:
        own: dict[str, tuple[Place, _Node]] = {}
        merged: list[_Node] = []
        for each in self._until(yaml.MappingEndEvent):
            key = self._node(each, depth + 1)
            value = self._node(next(self.events), depth + 1)
            if key.merge and not isinstance(each, yaml.AliasEvent):
                merged += value.value if isinstance(value.value, list) else [value]
            elif not isinstance(key.value, str):
                self._fault(each, _key_words(key.value))
            elif key.value in own:
                first = own[key.value][0].line
                words = f"the key {shown(key.value)} is in line {first} already: leave one out."
                self._fault(each, words)
            else:
                own[key.value] = (key.place, value)
        for other in merged:
            if not isinstance(other.value, dict):
                self._fault(event, "<< merges a map, and this is none: give *name of a map.")
                continue
            self._count(event, len(other.value))
            own = own | {key: entry for key, entry in other.value.items() if key not in own}
        return _Node(_place(event.start_mark), own)


class _Unfolded:
    """Nodes as plain values, aliases written out, with the place of everything."""

    def __init__(self, name: str) -> None:
        self.name, self.count = name, 0
        self.places: dict[Path, Place] = {}

    def value(self, node: _Node, path: Path) -> Any:
        self.count += 1
        if self.count > MOST_VALUES or len(path) > 2 * DEEPEST:
            _too_much(self.name, node.place)
        if isinstance(node.value, list):
            entries: list[tuple[Any, Place, _Node]] = [
                (position, item.place, item) for position, item in enumerate(node.value)
            ]
            return [self._entry(path, *entry) for entry in entries]
        if isinstance(node.value, dict):
            found = node.value.items()
            return {key: self._entry(path, key, place, item) for key, (place, item) in found}
        return node.value

    def _entry(self, path: Path, key: str | int, place: Place, node: _Node) -> Any:
        self.places[(*path, key)] = place
        return self.value(node, (*path, key))


def _too_much(name: str, place: Place) -> None:
    words = f"the study unfolds to more than {MOST_VALUES} values: use fewer aliases and merges."
    raise StudyError([f"{name}, line {place.line}: {words}"])


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


def _key_words(key: Any) -> str:
    if key is None:
        return "a key is empty: write it before the colon."
    if isinstance(key, list | dict):
        return f"a key is {shown(key)}: give text."
    return f"the key {shown(key)} is no text: put it in quotes, as in '{shown(key)}'."


HINTS = {
    "mapping values are not allowed": "put text with a colon in quotes",
    r"character '\t'": "indent with spaces, not with tabs",
    "could not find expected ':'": "write 'key: value', with a space after the colon",
    "found unexpected end of stream": "close the quote",
    "expected <block end>": "indent it like the lines that it belongs to",
    "expected ',' or": "close the bracket, or separate its values with commas",
    "that cannot start any token": "put text that begins with it in quotes",
    "unknown escape character": "double the backslash, or use single quotes",
}
"""What helps, by a part of what PyYAML says."""


def _yaml_words(error: yaml.MarkedYAMLError) -> str:
    problem = str(error.problem or error.context)
    hint = next((hint for part, hint in HINTS.items() if part in problem), "mend it")
    return f"this is no valid YAML ({problem}): {hint}."


# -- plain values ------------------------------------------------------------------------------------

NULL = re.compile(r"~|null|Null|NULL|")
TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
WHOLE = re.compile(r"[-+]?[0-9]+")
DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
FINITE = "give a finite one below 9.2e18 (the word inf for an infinite order)."


def plain_scalar(text: str) -> Any:
    """What a scalar without quotes means in YAML 1.2, decimal numbers alone."""
    if NULL.fullmatch(text):
        return None
    if text in TRUTH:
        return TRUTH[text]
    if WHOLE.fullmatch(text):
        return int(text) if len(text) < 30 else math.inf
    if DECIMAL.fullmatch(text):
        return float(text)
    return math.nan if NOT_FINITE.fullmatch(text) else text


def _is_usable(value: float) -> bool:
    return math.isfinite(value) and (isinstance(value, float) or abs(value) < 2**63)


def plain_data(data: Any, faults: Faults) -> Any:
    """A copy of ``data`` in dicts, lists and JSON values; what cannot be one is a fault."""
    return _Plain(faults).value(data, ())


class _Plain:
    def __init__(self, faults: Faults) -> None:
        self.faults, self.count = faults, 0

    def value(self, value: Any, path: Path) -> Any:
        self.count += 1
        if self.count > MOST_VALUES or len(path) > 2 * DEEPEST:
            raise StudyError(["the study holds too much, or itself: give plain nested maps."])
        if isinstance(value, Mapping):
            return self._map(value, path)
        if isinstance(value, list | tuple):
            return [self.value(item, (*path, i)) for i, item in enumerate(value)]
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if isinstance(value, str):
            return self._text(str(value), path)
        if value is None or isinstance(value, bool):
            return value
        return self._number(value, path)

    def _map(self, value: Mapping[Any, Any], path: Path) -> dict[str, Any]:
        found = {}
        for key, item in value.items():
            if isinstance(key, str):
                found[str(key)] = self.value(item, (*path, str(key)))
                self._text(str(key), (*path, str(key)))
            else:
                words = f"the key {shown(key)} of {subject(path)} is no text: give text."
                self.faults.add((*path, str(key)), words)
        return found

    def _text(self, text: str, path: Path) -> str:
        if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
            words = f"{subject(path)} holds a character that no file can: leave it out."
            self.faults.add(path, words)
            return ""
        return text

    def _number(self, value: Any, path: Path) -> float | None:
        whole = isinstance(value, numbers.Integral)
        if not whole and not isinstance(value, numbers.Real):
            words = f"{subject(path)} is of type {type(value).__name__}: give text or a number."
            self.faults.add(path, words)
            return None
        found = int(value) if whole else float(value)
        if not _is_usable(found):
            self.faults.add(path, f"{subject(path)} is {found}: {FINITE}")
            return None
        return found
