"""What the names in a study stand for: objectives, kernels, policies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, get_type_hints

import genmix as gx
from genmix.core.text import listed
from genmix.study.problems import Faults, Path, nearest, shown

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


def read_name(
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
