"""From what pydantic finds to sentences: where it stands, what it is, what to write instead."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from genmix.core.text import listed
from genmix.study.problems import Faults, Path, did_you_mean, nearest, shown, subject

Report = Callable[[Path, str], None]
"""Takes what is wrong with a path."""


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
        path = _path_in(data, model, details)
        if details["type"].startswith("union_tag"):
            path = (*path, "kind")
        groups.setdefault(origin(path), []).append(details)
    for path, errors in groups.items():
        faults.add(path, _sentence(path, errors, model))


def _path_in(data: Any, annotation: Any, error: Any) -> Path:
    """The location of an error without pydantic's own names of kinds and alternatives."""
    path: list[Any] = []
    for part in error["loc"]:
        is_kind = len(_models(annotation)) > 1
        annotation, _ = _behind(annotation, [part])
        if not is_kind and _holds(data, part):
            data = data[part]
            path.append(part)
    if error["type"] == "missing":
        path.append(error["loc"][-1])
    return tuple(path)


def _holds(data: Any, part: Any) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data


def _sentence(path: Path, errors: Sequence[Any], model: type[BaseModel]) -> str:
    first = errors[0]
    if first["type"] == "missing":
        _, field = _behind(model, first["loc"])
        return f"{subject(path[:-1])} lacks {path[-1]!r}: add it{_purpose(field)}."
    if first["type"] == "extra_forbidden":
        known = _keys(model, first["loc"][:-1])
        if path[0] == "arms" and len(path) == 3:
            known.append("variants")
        advice = did_you_mean(path[-1], known, f"the keys are {listed(known)}")
        return f"unknown key {shown(path[-1])} in {subject(path[:-1])}: {advice}"
    if first["type"].startswith("union_tag"):
        return _kind_sentence(subject(path[:-1]), first, _kinds(model, first["loc"]))
    own = next((each for each in errors if "error" in each.get("ctx", {})), None)
    if own is None:
        return f"{subject(path)} is {shown(first['input'])}: give {expected(errors, model)}."
    return _own_words(path, own)


def _own_words(path: Path, error: Any) -> str:
    """A sentence that the settings wrote themselves, with what they left out."""
    words, key = str(error["ctx"]["error"]).rstrip("."), str(path[-1]) if path else ""
    if key and words.startswith(f"{key} "):
        return f"{subject(path[:-1])}: {words}."
    is_said = not words.startswith("give ") or isinstance(error["input"], dict)
    if is_said or key.endswith("env"):
        return f"{subject(path)}: {words}."
    return f"{subject(path)} is {shown(error['input'])}: {words}."


def _kind_sentence(owner: str, error: Any, kinds: Sequence[str]) -> str:
    kind = error["input"].get("kind") if isinstance(error["input"], dict) else None
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
    if kind == "literal_error":
        return str(context["expected"])
    if kind == "string_pattern_mismatch":
        return f"text of another form{_purpose(field)}"
    if kind == "string_type" and isinstance(error["input"], int | float):
        return "text in quotes"
    if kind == "too_short":
        return f"at least {context['min_length']}".replace("least 1", "least one")
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


# -- numbers -----------------------------------------------------------------------------------------

NUMBER = re.compile(r"\s*[-+]?(\.[0-9]+|[0-9]{1,40}(\.[0-9]*)?)([eE][-+]?[0-9]+)?\s*")
INFINITE = re.compile(r"\s*[-+]?(inf|infinity|nan)\s*", re.IGNORECASE)


def with_numbers(annotation: Any, value: Any, report: Report, path: Path = ()) -> Any:
    """``value`` with 1e3 a number where one is wanted, also in quotes.

    What pydantic would take for a number besides, true and false and inf, is reported.
    """
    if isinstance(value, dict):
        if len(_models(annotation)) > 1:
            annotation, _ = _step(annotation, value.get("kind"))
        return {
            key: with_numbers(_step(annotation, key)[0], part, report, (*path, key))
            for key, part in value.items()
        }
    if isinstance(value, list):
        return [
            with_numbers(_step(annotation, i)[0], part, report, (*path, i))
            for i, part in enumerate(value)
        ]
    wanted = set(_alternatives(annotation))
    if wanted & {int, float} and not wanted & {bool, str}:
        return _number(value, "a whole number" if int in wanted else "a number", report, path)
    return value


def _number(value: Any, words: str, report: Report, path: Path) -> Any:
    if isinstance(value, str) and NUMBER.fullmatch(value):
        number = int(value) if value.strip().lstrip("+-").isdigit() else float(value)
        if abs(number) < 2**63:
            return number
    elif not isinstance(value, bool) and not (isinstance(value, str) and INFINITE.fullmatch(value)):
        return value
    report(path, f"is {shown(value)}: give {words}.")
    return value
