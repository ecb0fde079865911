"""What is wrong with a study, in sentences: where it stands, what it is, what to write instead."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

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


def listed(names: Iterable[Any], last: str = "and") -> str:
    """``a, b and c``."""
    *others, final = map(str, names)
    return f"{', '.join(others)} {last} {final}" if others else final


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


# -- what pydantic found -----------------------------------------------------------------------------


def add_errors(
    faults: Faults,
    error: ValidationError,
    model: type[BaseModel],
    data: Any,
    origin: Callable[[Path], Path] = lambda path: path,
) -> None:
    """The sentences for all errors of one validation of ``data``; ``origin`` says where it stood."""
    groups: dict[Path, list[Any]] = {}
    for details in error.errors(include_url=False):
        path = _path_in(data, model, details["loc"])
        if details["type"].startswith("union_tag"):
            path = (*path, "kind")
        groups.setdefault(origin(path), []).append(details)
    for path, errors in groups.items():
        faults.add(path, _sentence(path, errors, model))


def _path_in(data: Any, annotation: Any, location: tuple[Any, ...]) -> Path:
    """The location without pydantic's own names of kinds and alternatives."""
    path: list[Any] = []
    for position, part in enumerate(location):
        is_kind = len(_models(annotation)) > 1
        annotation, _ = _behind(annotation, [part])
        if is_kind:
            continue
        if (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        ):
            data = data[part]
            path.append(part)
        elif position == len(location) - 1 and isinstance(data, dict) and part != "[key]":
            path.append(part)  # a key that is missing
    return tuple(path)


def _sentence(path: Path, errors: Sequence[Any], model: type[BaseModel]) -> str:
    first = errors[0]
    if first["type"] == "missing":
        _, field = _behind(model, first["loc"])
        return f"{subject(path[:-1])} lacks {path[-1]!r}: add it{_purpose(field)}."
    if first["type"] == "extra_forbidden":
        known = _keys(model, first["loc"][:-1]) + ["variants"] * (path[0] == "arms")
        advice = did_you_mean(path[-1], known, f"the keys are {listed(known)}")
        return f"unknown key {shown(path[-1])} in {subject(path[:-1])}: {advice}"
    if first["type"].startswith("union_tag"):
        return _kind_sentence(subject(path[:-1]), first, _kinds(model, first["loc"]))
    own = next((each for each in errors if "error" in each.get("ctx", {})), None)
    words = f"give {expected(errors, model)}" if own is None else str(own["ctx"]["error"])
    return f"{_opening(path, first['input'], words)}: {words.rstrip('.')}."


def _opening(path: Path, value: Any, words: str) -> str:
    """What is wrong, and what it is, unless the words say so themselves or nobody should."""
    if path and words.startswith(f"{path[-1]} "):
        return subject(path[:-1])
    secret = path and str(path[-1]).endswith("env")
    if secret or not words.startswith("give ") or (isinstance(value, dict) and "map" not in words):
        return subject(path)
    return f"{subject(path)} is {shown(value)}"


def _kind_sentence(owner: str, error: Any, kinds: Sequence[str]) -> str:
    kind = error["ctx"].get("tag")
    if kind is None:
        return f"{owner} lacks 'kind': give one of {listed(kinds, 'or')}."
    close = nearest(kind, kinds)
    if close is None:
        return f"unknown kind {shown(kind)} of {owner}: use one of {listed(kinds, 'or')}."
    others = listed([each for each in kinds if each != close], "or")
    return f"unknown kind {shown(kind)} of {owner}: did you mean {close!r} (or {others})?"


def _purpose(field: Any) -> str:
    """`` (what the field is for)``."""
    words = getattr(field, "description", None) or ""
    if not words:
        return ""
    first = words[0] if words[1:2].isupper() else words[0].lower()
    return f" ({first}{words[1:].rstrip('.')})"


# -- what to give instead ----------------------------------------------------------------------------

PHRASES = {
    "int_": "a whole number",
    "float_": "a number",
    "finite_number": "a number",
    "string_": "text",
    "bool_": "true or false",
    "list_": "a list",
    "tuple_": "a list",
    "set_": "a list",
    "dict_": "a map of keys and values",
    "mapping_": "a map of keys and values",
    "model_": "a map of keys and values",
    "path_": "a path",
    "none_required": "nothing",
}
"""By how pydantic's names of errors begin."""


def expected(errors: Sequence[Any], model: Any = None) -> str:
    """What to give instead, over all alternatives."""
    phrases = [_phrase(each, _behind(model, each["loc"])[1]) for each in errors]
    return listed(dict.fromkeys(phrases), "or")


def _phrase(error: Any, field: Any) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind.startswith(("greater_than", "less_than")):
        whole = field is not None and int in _alternatives(field.annotation)
        return ("a whole number" if whole else "a number") + _bounds(field, context)
    if kind == "string_pattern_mismatch":
        return f"text of another form{_purpose(field)}"
    if kind == "literal_error":
        return str(context["expected"])
    if kind in ("too_short", "string_too_short"):
        least = context["min_length"]
        return (
            f"{'text' if kind != 'too_short' else 'at least one'}"
            if least == 1
            else f"at least {least}"
        )
    if kind == "string_type" and isinstance(error["input"], int | float):
        return "text in quotes"
    for start, phrase in PHRASES.items():
        if kind.startswith(start):
            return phrase + (_bounds(field, {}) if "number" in phrase else "")
    words = str(error["msg"])
    return f"another value ({words[:1].lower()}{words[1:]})"


def _bounds(field: Any, passed: Mapping[str, Any]) -> str:
    """`` of at least 1``: the field's own limits, or else the one that was passed."""
    limits = dict(passed)
    for rule in getattr(field, "metadata", ()):
        limits |= {name: getattr(rule, name) for name in LIMITS if hasattr(rule, name)}
    if "ge" in limits and "le" in limits:
        return f" between {limits['ge']:g} and {limits['le']:g}"
    parts = [f"{LIMITS[name]} {limits[name]:g}" for name in LIMITS if name in limits]
    return f" {' and '.join(parts)}" if parts else ""


LIMITS = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}


# -- the settings behind a location ------------------------------------------------------------------


def _behind(annotation: Any, location: Iterable[Any]) -> tuple[Any, Any]:
    """The type at the end of a location of pydantic, and the field if it ends in one."""
    field = None
    for part in location:
        annotation, field = _step(annotation, part)
    return annotation, field


def _step(annotation: Any, part: Any) -> tuple[Any, Any]:
    settings = _models(annotation)
    if len(settings) > 1:  # a union, where pydantic names the kind
        return next((each for each in settings if part in kinds_of(each)), None), None
    for each in settings:
        if part in each.model_fields:
            return each.model_fields[part].annotation, each.model_fields[part]
    for each in _alternatives(annotation):
        if get_origin(each) in (dict, list, tuple):
            return get_args(each)[-1 if get_origin(each) is dict else 0], None
    return None, None


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the one thing that it is."""
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(each for member in get_args(annotation) for each in _alternatives(member))
    return (annotation,)


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The classes of settings among the alternatives."""
    found = [each for each in _alternatives(annotation) if isinstance(each, type)]
    return [each for each in found if issubclass(each, BaseModel)]


def _keys(model: Any, location: Sequence[Any]) -> list[str]:
    """The keys of the settings that a location leads to."""
    return [key for each in _models(_behind(model, location)[0]) for key in each.model_fields]


def _kinds(model: Any, location: Sequence[Any]) -> list[str]:
    return [kind for each in _models(_behind(model, location)[0]) for kind in kinds_of(each)]


def kinds_of(settings: type[BaseModel]) -> tuple[str, ...]:
    """The values of ``kind`` that a class of settings stands for."""
    field = settings.model_fields.get("kind")
    return get_args(field.annotation) if field is not None else ()


def odd_numbers(annotation: Any, value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Numbers that pydantic would take from true and false, or from words such as inf."""
    wanted = _alternatives(annotation)
    if isinstance(value, dict):
        if len(_models(annotation)) > 1:
            annotation, _ = _step(annotation, value.get("kind"))
        for key, part in value.items():
            yield from odd_numbers(_step(annotation, key)[0], part, (*path, key))
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from odd_numbers(_step(annotation, position)[0], part, (*path, position))
    elif {int, float} & set(wanted) and not {bool, str} & set(wanted) and _is_odd(value):
        words = "a whole number" if int in wanted else "a number"
        yield path, f"is {shown(value)}: give {words}."


def _is_odd(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and bool(INFINITE.fullmatch(value)))


INFINITE = re.compile(r"\s*[-+]?(inf|infinity|nan)\s*", re.IGNORECASE)
