"""Convert pydantic's errors into sentences that name the key and its value, and say what to write instead."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from genmix.core.text import listed
from genmix.study.parsing import is_usable
from genmix.study.problems import KeyPath, Problems, did_you_mean, nearest, shown, subject

IMPERATIVES = ("give ", "name ", "pass ", "put ", "set ", "use ", "write ")
"""Opening words of validator messages that say only what to do, not what is wrong."""


def add_errors(
    problems: Problems,
    error: ValidationError,
    model: type[BaseModel],
    data: Any,
    origin: Callable[[KeyPath], KeyPath],
) -> None:
    """Add one sentence per validation error; ``origin`` maps paths in ``data`` to paths in the file."""
    groups: dict[KeyPath, list[Any]] = {}
    for details in error.errors(include_url=False):
        path = _path_in(data, model, details)
        if details["type"].startswith("union_tag"):
            path = (*path, "kind")
        groups.setdefault(origin(path), []).append(details)
    for path, errors in groups.items():
        problems.add(path, _sentence(path, errors, model))


def _path_in(data: Any, annotation: Any, error: Any) -> KeyPath:
    """Return the key path of an error, without the kinds and union members that pydantic adds."""
    path: list[Any] = []
    for part in error["loc"]:
        is_kind = len(_models(annotation)) > 1
        annotation, _ = _type_at(annotation, [part])
        if not is_kind and _contains(data, part):
            data = data[part]
            path.append(part)
    if error["type"] == "missing":
        path.append(error["loc"][-1])
    elif "error" in error.get("ctx", {}) and isinstance(data, dict):
        key = _first_word(error)  # e.g. "order is -1; …" refers to the key 'order'
        path += [key] if key in data else []
    return tuple(path)


def _first_word(error: Any) -> str:
    return str(error["ctx"]["error"]).removeprefix("the ").partition(" ")[0]


def _contains(data: Any, part: Any) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data


def _sentence(path: KeyPath, errors: Sequence[Any], model: type[BaseModel]) -> str:
    first = errors[0]
    if first["type"] == "missing":
        _, field = _type_at(model, first["loc"])
        return f"{subject(path[:-1])} has no {path[-1]!r}; add it{_purpose(field)}."
    if first["type"] == "extra_forbidden":
        return _unknown_key(path, _keys(model, first["loc"][:-1]))
    if first["type"].startswith("union_tag"):
        return _unknown_kind(subject(path[:-1]), first, _kinds(model, first["loc"]))
    own = next((each for each in errors if "error" in each.get("ctx", {})), None)
    if own is None:
        return f"{subject(path)} is {shown(first['input'])}; use {_expected(errors, model)}."
    return _validator_sentence(path, own)


def _unknown_key(path: KeyPath, known: list[str]) -> str:
    if path[0] in ("objective", "policy"):
        known = [key for key in known if key != "kind"]
    elif path[0] == "arms" and len(path) == 3:
        known.append("variants")
    several = "the keys are" if len(known) > 1 else "the only key is"
    otherwise = f"{several} {listed(known)}" if known else "it has no parameters"
    advice = did_you_mean(path[-1], known, otherwise)
    return f"unknown key {shown(path[-1])} in {subject(path[:-1])}; {advice}"


def _validator_sentence(path: KeyPath, error: Any) -> str:
    """Build a sentence from the message of one of genmix's validators."""
    words = str(error["ctx"]["error"]).rstrip(".")
    key = str(path[-1]) if path else ""
    if key and _first_word(error) == key:
        owner = subject(path[:-1])
        return f"{words}." if not path[:-1] or f" {owner} " in words else f"{owner}: {words}."
    is_advice = words.startswith(IMPERATIVES) and not isinstance(error["input"], dict)
    if is_advice and not key.endswith("env"):  # the value may be a secret
        return f"{subject(path)} is {shown(error['input'])}; {words}."
    return f"{subject(path)}: {words}."


def _unknown_kind(owner: str, error: Any, kinds: Sequence[str]) -> str:
    kind = error["input"].get("kind") if isinstance(error["input"], dict) else None
    if kind is None:
        keys = error["input"] if isinstance(error["input"], dict) else ()
        typed = next((key for key in keys if nearest(key, ["kind"])), None)
        if typed is not None:
            return f"unknown key {shown(typed)} in {owner}; did you mean 'kind'?"
        return f"{owner} has no 'kind'; use one of {listed(kinds, 'or')}."
    close = nearest(kind, kinds)
    if close is None:
        return f"unknown kind {shown(kind)} in {owner}; use one of {listed(kinds, 'or')}."
    others = listed([each for each in kinds if each != close], "or")
    return f"unknown kind {shown(kind)} in {owner}; did you mean {close!r} (or {others})?"


def _purpose(field: Any) -> str:
    """Return the field's description in parentheses, with a leading space."""
    words = getattr(field, "description", None) or ""
    if not words:
        return ""
    first = words[0] if words[1:2].isupper() else words[0].lower()
    return f" ({first}{words[1:].rstrip('.')})"


# -- expected values ---------------------------------------------------------------------------

PHRASES = {
    "int_": "a whole number",
    "float_": "a number",
    "finite_number": "a number",
    "string_": "text",
    "bool_": "true or false",
    "list_": "a list",
    "tuple_": "a list",
    "set_": "a list",
    "dict_": "a mapping of keys and values",
    "mapping_": "a mapping of keys and values",
    "model_": "a mapping of keys and values",
    "path_": "a path",
    "none_required": "nothing",
}
"""Descriptions of expected values, keyed by the prefix of pydantic's error type."""

BOUNDS = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}


def _expected(errors: Sequence[Any], model: Any) -> str:
    """Describe the values that the key accepts."""
    phrases = [_phrase(each, _type_at(model, each["loc"])[1]) for each in errors]
    return listed(dict.fromkeys(phrases), "or")


def _phrase(error: Any, field: Any) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind.startswith(("greater_than", "less_than")):
        is_integer = field is not None and int in _members(field.annotation)
        return ("a whole number" if is_integer else "a number") + _bounds(field, context)
    if kind == "literal_error":
        return str(context["expected"])
    if kind == "string_pattern_mismatch":
        return f"another format{_purpose(field)}"
    if kind == "string_type" and isinstance(error["input"], int | float):
        return "text in quotes"
    if kind == "too_short":
        count = context["min_length"]
        return "at least one entry" if count == 1 else f"at least {count} entries"
    settings = [] if field is None else _models(field.annotation)
    if kind.startswith("model_") and len(settings) == 1:
        return _section_phrase(settings[0], error["input"])
    for prefix, phrase in PHRASES.items():
        if kind.startswith(prefix):
            return phrase + (_bounds(field, {}) if "number" in phrase else "")
    words = str(error["msg"])
    return f"another value ({words[:1].lower()}{words[1:]})"


def _section_phrase(section: type[BaseModel], value: Any) -> str:
    """Name the keys of a section, with the number that was written in its place as an example."""
    fields = section.model_fields
    required = [key for key, field in fields.items() if field.is_required()]
    described = (f"{key}{_purpose(fields[key]) if key in required else ''}" for key in fields)
    phrase = f"a mapping with the {'keys' if len(fields) > 1 else 'key'} {listed(described)}"
    fitting = [key for key in fields if type(value) in _members(fields[key].annotation)]
    accepts_all = required and all(float in _members(fields[key].annotation) for key in required)
    if type(value) not in (int, float) or not (accepts_all or fitting):
        return phrase
    keys = required if accepts_all else fitting[:1]
    return f"{phrase}, e.g. {{{', '.join(f'{key}: {value}' for key in keys)}}}"


def _bounds(field: Any, exceeded: Mapping[str, Any]) -> str:
    """Describe a field's bounds, or the bound that was violated, e.g. `` of at least 1``."""
    limits = {name: value for name, value in exceeded.items() if name in BOUNDS}
    for rule in getattr(field, "metadata", ()):
        limits |= {name: getattr(rule, name) for name in BOUNDS if hasattr(rule, name)}
    if "ge" in limits and "le" in limits:
        return f" between {limits['ge']:g} and {limits['le']:g}"
    parts = [f"{BOUNDS[name]} {limits[name]:g}" for name in BOUNDS if name in limits]
    return f" {' and '.join(parts)}" if parts else ""


# -- types at a location ---------------------------------------------------------------------


def _type_at(annotation: Any, location: Iterable[Any]) -> tuple[Any, Any]:
    """Return the type at a pydantic location, and the field if there is one."""
    field = None
    for part in location:
        annotation, field = _step(annotation, part)
    return annotation, field


def _step(annotation: Any, part: Any) -> tuple[Any, Any]:
    settings = _models(annotation)
    if len(settings) > 1:  # in a union, pydantic's location contains the kind
        return next((each for each in settings if part in kinds_of(each)), None), None
    for each in settings:
        if part in each.model_fields:
            return each.model_fields[part].annotation, each.model_fields[part]
    for each in _members(annotation):
        if get_origin(each) in (dict, list, tuple):
            return get_args(each)[-1 if get_origin(each) is dict else 0], None
    return None, None


def _members(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the type itself."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(each for member in get_args(annotation) for each in _members(member))
    return (annotation,)


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Return the pydantic models among the members of a union."""
    found = [each for each in _members(annotation) if isinstance(each, type)]
    return [each for each in found if issubclass(each, BaseModel)]


def _keys(model: Any, location: Sequence[Any]) -> list[str]:
    return [key for each in _models(_type_at(model, location)[0]) for key in each.model_fields]


def _kinds(model: Any, location: Sequence[Any]) -> list[str]:
    return [kind for each in _models(_type_at(model, location)[0]) for kind in kinds_of(each)]


def kinds_of(settings: type[BaseModel]) -> tuple[str, ...]:
    """Return the values of ``kind`` that a settings class accepts."""
    field = settings.model_fields.get("kind")
    return get_args(field.annotation) if field is not None else ()


# -- numbers -----------------------------------------------------------------------------------------

NUMBER = re.compile(r"\s*[-+]?(\.[0-9]+|[0-9]{1,40}(\.[0-9]*)?)([eE][-+]?[0-9]+)?\s*")
INFINITE = re.compile(r"\s*[-+]?(inf|infinity|nan)\s*", re.IGNORECASE)


REJECTED: list[Any] = []
"""Placeholder for a value that was already reported; pydantic rejects it, so no later check sees it."""


def with_numbers(
    annotation: Any, value: Any, report: Callable[[KeyPath, str], None], path: KeyPath = ()
) -> Any:
    """Convert text such as ``"1e3"`` to a number wherever a number is expected.

    Reports true, false, inf and nan, which pydantic would accept as numbers.
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
    wanted = set(_members(annotation))
    if Literal["inf"] in wanted and re.fullmatch(r"\+?inf(inity)?", str(value).strip(), re.I):
        return "inf"
    if isinstance(value, bool) and any(value in get_args(each) for each in wanted):
        report(path, f"is {shown(value)}; use a number.")  # True == 1, so Literal[1] accepts it
        return REJECTED
    if wanted & {int, float} and not wanted & {bool, str}:
        return _number(value, "a whole number" if int in wanted else "a number", report, path)
    return value


def _number(value: Any, words: str, report: Callable[[KeyPath, str], None], path: KeyPath) -> Any:
    if isinstance(value, str) and NUMBER.fullmatch(value):
        number = int(value) if value.strip().lstrip("+-").isdigit() else float(value)
        if is_usable(number):
            return number
    elif not isinstance(value, bool) and not (isinstance(value, str) and INFINITE.fullmatch(value)):
        return value
    report(path, f"is {shown(value)}; use {words}.")
    return REJECTED
