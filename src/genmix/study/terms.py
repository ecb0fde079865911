"""Objectives, kernels and policies by their names in a study."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

import genmix as gx
from genmix.errors import InputError
from genmix.study.messages import Faults, Path, did_you_mean, listed, nearest, shown
from genmix.study.translate import expected

if TYPE_CHECKING:
    from genmix.study.config import Study

Read = Callable[[str], Any]
"""Gives the reference of a path: an array ``(n, d)`` or moments."""

MOST_NEIGHBOURS = 100_000

OTHER_NAMES = {
    "fd": "frechet-distance",
    "fid": "frechet-distance",
    "kd": "kernel-distance",
    "kid": "kernel-distance",
    "mmd": "kernel-distance",
    "is": "inception-score",
    "rbf": "gaussian",
    "linear": "cosine",
    "greedy": "mixture-greedy",
    "ucb": "mixture-ucb",
    "random": "uniform",
}
"""What people call some of them elsewhere."""

REPORTED = ("recall", "coverage")
EXAMPLES = {"objective": "vendi", "policy": "mixture-greedy", "kernel": "gaussian"}


class Named(BaseModel):
    """A name and its parameters, as they were written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        return {self.name: dict(self.parameters)}


class Term(Named):
    """One objective of a sum."""

    weight: float = 1.0

    def plain(self) -> dict[str, Any]:
        return {self.name: {**self.parameters, "weight": self.weight}}


# -- what there is -----------------------------------------------------------------------------------


@cache
def objectives() -> dict[str, type]:
    return {hyphenated(each.name): each for each in _public(gx.Objective)}


@cache
def kernels() -> dict[str, type]:
    return {hyphenated(each.__name__): each for each in _public(gx.Kernel)}


@cache
def policies() -> dict[str, type]:
    return {hyphenated(each.__name__): each for each in _public(gx.Policy)}


def _public(base: type) -> list[Any]:
    """The classes of a family that genmix offers."""
    found = [value for value in vars(gx).values() if isinstance(value, type)]
    return [each for each in found if issubclass(each, base) and each is not base]


def hyphenated(name: str) -> str:
    """``MixtureUCB`` and ``mixture_ucb`` as ``mixture-ucb``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower().replace("_", "-")


@cache
def parameters_of(cls: type) -> dict[str, Any]:
    """The parameters that a person may give, and their types."""
    hints = get_type_hints(cls)
    return {each.name: hints[each.name] for each in fields(cls) if each.repr}


def needs_reference(name: str) -> bool:
    return "reference" in parameters_of(objectives()[name])


# -- reading what was written ------------------------------------------------------------------------


def read_terms(value: Any, faults: Faults) -> tuple[Term, ...]:
    """The objective of a study: a name, a name with parameters, or a list of such."""
    items = (
        [(("objective", i), item) for i, item in enumerate(value)]
        if isinstance(value, list)
        else [(("objective",), value)]
    )
    if not items:
        faults.add(("objective",), "objective is empty: give a name such as vendi.")
    found = []
    for path, item in items:
        entry = _entry(item, path, objectives(), "objective", faults)
        if entry is not None:
            found.append(_term(*entry, faults))
    return tuple(found)


def _term(name: str, parameters: dict[str, Any], path: Path, faults: Faults) -> Term:
    own = {key: value for key, value in parameters.items() if key != "weight"}
    weight = parameters.get("weight", 1.0)
    try:
        weight = _typed(float, weight, finite=True)
    except _Unfit as unfit:
        faults.add((*path, "weight"), f"weight of {name} is {shown(weight)}: give {unfit}.")
        weight = 1.0
    known = parameters_of(objectives()[name])
    for key, value in own.items():
        if (
            type(value) is int
            and value > MOST_NEIGHBOURS
            and needs_reference(name)
            and key in known
        ):
            words = f"{key} of {name} is {value}: give a number of at most {MOST_NEIGHBOURS}."
            faults.add((*path, key), words)
    term = Term(name=name, parameters=own, weight=weight)
    make_term(term, stand_in([term]), path, faults)
    return term


def read_policy(value: Any, faults: Faults) -> Named | None:
    """A name, or a name with parameters."""
    entry = _entry(value, ("policy",), policies(), "policy", faults)
    if entry is None:
        return None
    name, parameters, path = entry
    _make(policies()[name], name, parameters, path, faults)
    return Named(name=name, parameters=parameters)


def _entry(
    value: Any, path: Path, known: Mapping[str, type], what: str, faults: Faults
) -> tuple[str, dict[str, Any], Path] | None:
    """Name, parameters and where these stand, from ``name`` or ``{name: {parameters}}``."""
    if isinstance(value, dict) and len(value) == 1:
        ((written, given),) = value.items()
        path = (*path, written)
    elif isinstance(value, dict) and value:
        faults.add(path, _several_words(what, value, known))
        return None
    else:
        written, given = value, None
    if not isinstance(written, str) or not written:
        advice = f"give a name such as {EXAMPLES[what]}, or {{{EXAMPLES[what]}: {{parameters}}}}"
        faults.add(path, f"{what} is {shown(written)}: {advice}.")
        return None
    name = hyphenated(written)
    if name not in known:
        faults.add(path, f"unknown {what} {shown(written)}: {_guess(written, name, known)}")
        return None
    if given is not None and not isinstance(given, dict):
        words = f"the parameters of {name} are {shown(given)}: give a map, {_example(known[name])}."
        faults.add(path, words)
        return None
    return name, given or {}, path


def _several_words(what: str, value: Mapping[str, Any], known: Iterable[str]) -> str:
    names = [key for key in value if hyphenated(key) in known]
    others = [key for key in value if key not in names]
    if len(names) == 1:
        below = f"'{names[0]}: {{{others[0]}: …}}'"
        return f"{shown(others[0])} stands beside {names[0]}: indent it below, as in {below}."
    if what == "objective":
        return f"objective is a map of {listed([*value][:4])}: write a list, '- name' a line."
    return (
        f"{what} is a map of {listed([*value][:4])}: give one name, with its parameters below it."
    )


def _example(cls: type) -> str:
    names = list(parameters_of(cls))
    return f"such as {{{names[0]}: …}}" if names else "or nothing: it has none"


def _guess(written: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    if name in REPORTED and "precision" in names:
        return f"{name} is reported but not optimised, use precision or density."
    if OTHER_NAMES.get(name) in names:
        return f"did you mean {OTHER_NAMES[name]!r}?"
    close = nearest(written, names)
    return f"did you mean {close!r}?" if close else f"use one of {listed(names, 'or')}."


# -- making them -------------------------------------------------------------------------------------


def make_objective(study: Study, read: Read) -> gx.Objective:
    """What the study optimises; ``read`` is called once for every distinct path."""
    content = {path: read(path) for path in reference_paths(study)}
    faults = Faults()
    made = [
        make_term(term, content.get(reference_of(term, study.reference)), _path(study, i), faults)
        for i, term in enumerate(study.objective)
    ]
    faults.raise_by_path()
    return total([each for each in made if each is not None])


def _path(study: Study, position: int) -> Path:
    return ("objective", position) if len(study.objective) > 1 else ("objective",)


def reference_of(term: Term, default: str | None) -> str:
    """The path of what a term compares with; empty if there is nothing."""
    if not needs_reference(term.name):
        return ""
    return str(term.parameters.get("reference") or default or "")


def reference_paths(study: Study) -> tuple[str, ...]:
    """The distinct references, in the order of the terms."""
    found = [reference_of(term, study.reference) for term in study.objective]
    return tuple(path for path in dict.fromkeys(found) if path)


def make_policy(study: Study) -> gx.Policy:
    """How the study chooses the next arm."""
    faults = Faults()
    named = study.policy
    made = _make(policies()[named.name], named.name, named.parameters, ("policy",), faults)
    faults.raise_by_path()
    assert isinstance(made, gx.Policy)
    return made


def trial_objective(terms: Iterable[Term]) -> gx.Objective:
    """The objective with stand-ins for references, to ask what it needs."""
    made = [make_term(term, stand_in([term]), (), Faults()) for term in terms]
    return total([each for each in made if each is not None])


def total(parts: Iterable[gx.Objective]) -> gx.Objective:
    first, *others = parts
    for other in others:
        first = first + other
    return first


def make_term(term: Term, reference: Any, path: Path, faults: Faults) -> gx.Objective | None:
    """One objective with its weight; None if something is wrong with it."""
    cls = objectives()[term.name]
    given = {**term.parameters}
    if "reference" in parameters_of(cls):
        own = given.pop("reference", None)
        if own is not None and (not isinstance(own, str) or not own):
            words = f"reference of {term.name} is {shown(own)}: give the path of a file or folder."
            faults.add((*path, "reference"), words)
            return None
        made = _make(cls, term.name, given, path, faults, reference=reference)
    else:
        made = _make(cls, term.name, given, path, faults)
    if made is None or term.weight == 1:
        return made  # type: ignore[no-any-return]
    try:
        return term.weight * made  # type: ignore[no-any-return]
    except InputError as error:
        faults.add((*path, "weight"), str(error))
        return None


def _make(
    cls: type, name: str, given: Mapping[str, Any], path: Path, faults: Faults, **more: Any
) -> Any:
    """An object from written parameters; None, and faults, if they do not fit."""
    before = len(faults.found)
    arguments = _arguments(cls, name, given, path, faults, more)
    if len(faults.found) > before:
        return None
    try:
        with np.errstate(all="ignore"):  # weights of 1e308, say, which are then refused
            return cls(**arguments)
    except InputError as error:
        faults.add(path, f"{name}: {error}")
        return None


def _arguments(
    cls: type,
    name: str,
    given: Mapping[str, Any],
    path: Path,
    faults: Faults,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    known = parameters_of(cls)
    found = dict(more)
    for key, value in given.items():
        here = (*path, key)
        if key not in known or key in more:
            faults.add(here, _unknown_words(key, name, [*known], cls))
        elif key == "kernel":
            found[key] = _kernel(value, here, faults)
        elif (
            key == "weights"
            and isinstance(value, dict)
            and not all(map(_is_number, value.values()))
        ):
            faults.add(here, f"weights of {name} is a map: give a map from arm to a number.")
        else:
            try:
                found[key] = _typed(known[key], value)
            except _Unfit as unfit:
                faults.add(here, f"{key} of {name} is {shown(value)}: give {unfit}.")
    needed = [e.name for e in fields(cls) if e.default is MISSING and e.default_factory is MISSING]
    for key in needed:
        if key not in found and key not in given:
            faults.add((*path, key), f"{name} lacks {key!r}: add it.")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unknown_words(key: str, name: str, known: list[str], cls: type) -> str:
    names = [*known, "weight"] if issubclass(cls, gx.Objective) else known
    several = "its parameters are" if len(names) > 1 else "its only parameter is"
    otherwise = f"{several} {listed(names)}" if names else "it has none"
    return f"unknown parameter {shown(key)} of {name}: {did_you_mean(key, names, otherwise)}"


def _kernel(value: Any, path: Path, faults: Faults) -> Any:
    entry = _entry(value, path, kernels(), "kernel", faults)
    if entry is None:
        return None
    name, parameters, here = entry
    return _make(kernels()[name], name, parameters, here, faults)


class _Unfit(ValueError):
    """A value of the wrong type; the message is what to give instead."""


def _typed(hint: Any, value: Any, finite: bool = False) -> Any:
    """``value`` as its parameter wants it: 1e3 in quotes is a number too, true is none."""
    if hint is Any:
        return value
    try:
        found = TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        raise _Unfit(expected(error.errors(include_url=False))) from None
    wrong = isinstance(value, bool) and not isinstance(found, bool)
    if wrong or (finite and not np.isfinite(found)):
        raise _Unfit("a number")
    return found


def stand_in(terms: Iterable[Term], dimension: int = 1) -> Any:
    """Reference samples that are enough for every number of neighbours that is asked for."""
    counts = [value for term in terms for value in term.parameters.values() if type(value) is int]
    rows = 8 + max(0, min(max(counts, default=0), MOST_NEIGHBOURS))  # beyond every default
    return np.arange(1.0, rows + 1)[:, None] * np.ones(dimension)
