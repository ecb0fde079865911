"""Objectives, kernels and policies by their names in a study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

import genmix as gx
from genmix.core.text import listed
from genmix.errors import InputError
from genmix.study.names import (
    kernels,
    needs_reference,
    objectives,
    parameters_of,
    policies,
    read_name,
)
from genmix.study.problems import Faults, Path, did_you_mean, shown
from genmix.study.messages import expected

if TYPE_CHECKING:
    from genmix.study.study import Study

Read = Callable[[str], Any]
"""Gives the reference of a path: an array ``(n, d)`` or moments."""

MOST_NEIGHBOURS = 100_000


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
        entry = read_name(item, path, objectives(), "objective", faults)
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
    known = parameters_of(objectives()[name]) if needs_reference(name) else ()
    for key in [key for key in own if key in known and _is_huge(own[key])]:
        words = f"{key} of {name} is {own[key]}: give a number of at most {MOST_NEIGHBOURS}."
        faults.add((*path, key), words)
    term = Term(name=name, parameters=own, weight=weight)
    make_term(term, stand_in([term]), path, faults)
    return term


def _is_huge(value: Any) -> bool:
    return type(value) is int and value > MOST_NEIGHBOURS


def read_policy(value: Any, faults: Faults) -> Named | None:
    """A name, or a name with parameters."""
    entry = read_name(value, ("policy",), policies(), "policy", faults)
    if entry is None:
        return None
    name, parameters, path = entry
    _make(policies()[name], name, parameters, path, faults)
    return Named(name=name, parameters=parameters)


# -- making them -------------------------------------------------------------------------------------


def make_objective(study: Study, read: Read) -> gx.Objective:
    """What the study optimises; ``read`` is called once for every distinct path."""
    content = {path: read(path) for path in reference_paths(study)}
    faults = Faults()
    made = [
        make_term(
            term, content.get(reference_of(term, study.reference)), term_path(study, i), faults
        )
        for i, term in enumerate(study.objective)
    ]
    faults.raise_by_path()
    return total([each for each in made if each is not None])


def term_path(study: Study, position: int) -> Path:
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
    return policy_named(study.policy)


def policy_from(value: Any) -> gx.Policy:
    """A policy from a name, or a name with parameters."""
    faults = Faults()
    named = read_policy(value, faults)
    faults.raise_by_path()
    assert named is not None
    return policy_named(named)


def policy_named(named: Named) -> gx.Policy:
    faults = Faults()
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
    own = Faults()
    arguments = _arguments(cls, name, given, path, own, more)
    faults.take(own)
    if own:
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
        elif key == "weights" and not _are_weights(value):
            faults.add(here, f"weights of {name} is {shown(value)}: give a map from arm to number.")
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


def _are_weights(value: Any) -> bool:
    return isinstance(value, dict) and all(type(share) in (int, float) for share in value.values())


def _unknown_words(key: str, name: str, known: list[str], cls: type) -> str:
    names = [*known, "weight"] if issubclass(cls, gx.Objective) else known
    several = "its parameters are" if len(names) > 1 else "its only parameter is"
    otherwise = f"{several} {listed(names)}" if names else "it has none"
    return f"unknown parameter {shown(key)} of {name}: {did_you_mean(key, names, otherwise)}"


def _kernel(value: Any, path: Path, faults: Faults) -> Any:
    entry = read_name(value, path, kernels(), "kernel", faults)
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
