"""Write the Python objects in a dict as a study file would: by name, with their parameters.

Objectives, kernels and policies from genmix become ``{name: {parameters}}``. Functions, arrays and
classes of the user become a ``PythonObject``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

import numpy as np

import genmix as gx
from genmix.core.arrays import is_torch
from genmix.core.description import Description
from genmix.core.python_objects import PythonObject, function_label
from genmix.data.reference import Moments, Samples, to_reference
from genmix.errors import InputError
from genmix.kernels.kernels import Custom, Normalised
from genmix.objectives import Sum
from genmix.study.components import KERNELS, OBJECTIVES, PARTS, POLICIES
from genmix.study.problems import KeyPath, subject


def written(value: Any, path: KeyPath) -> Any:
    """Return what stands for ``value`` at this place of a study; most values stand for themselves."""
    section, rest = path[:1], path[1:]
    if section == ("arms",) and rest:
        return _callable(value, rest[1:])
    if section == ("encoder",):
        return _callable(value, rest)
    if path[:2] == ("prompts", "encoder"):
        return _callable(value, path[2:])
    if section in (("objective",), ("policy",)):
        _refuse_class(value, path)
    if section == ("objective",):
        return _in_objective(value, rest)
    if path == ("policy",):
        return _policy(value)
    return _reference(value) if path == ("reference",) else value


# -- functions and references ------------------------------------------------------------------------


def _callable(value: Any, path: KeyPath) -> Any:
    """Write a function in place of an arm or encoder, or as its ``function``."""
    if not path and callable(value):
        return {"kind": "callable", "function": value}
    if not path and isinstance(value, Mapping) and callable(value.get("function")):
        return {"kind": "callable", **value}
    is_function = path[-1:] == ("function",) and "arguments" not in path
    return _function(value) if is_function else value


def _function(value: Any) -> Any:
    if callable(value):
        return PythonObject.of(value, function_label(value))
    return PythonObject.stored(value)


def _reference(value: Any) -> Any:
    is_array = isinstance(value, np.ndarray) or is_torch(value)
    if is_array or isinstance(value, tuple | Samples | Moments):
        return name_of_reference(to_reference(value))
    return PythonObject.stored(value)


def name_of_reference(reference: Samples | Moments) -> PythonObject:
    """Return the name of a reference, which includes its size and a digest of its numbers."""
    return PythonObject.of(reference, str(reference))


# -- objectives, kernels and policies ----------------------------------------------------------------


def _refuse_class(value: Any, path: KeyPath) -> None:
    """Refuse a class in place of an object, e.g. ``gx.Vendi`` instead of ``gx.Vendi()``."""
    if not (isinstance(value, type) and issubclass(value, gx.Objective | gx.Kernel | gx.Policy)):
        return
    package = "gx." if value.__module__.startswith("genmix.") else ""
    given: tuple[Field[Any], ...] = fields(value) if is_dataclass(value) else ()
    needed = [f.name for f in given if f.default is MISSING and f.default_factory is MISSING]
    raise InputError(
        f"{subject(path)} is the class {value.__name__}; "
        f"write {package}{value.__name__}({', '.join(needed)})."
    )


def _in_objective(value: Any, path: KeyPath) -> Any:
    key = path[-1] if path else 0
    if not path and isinstance(value, list | tuple | gx.Objective):
        items = [value] if isinstance(value, gx.Objective) else value
        return [term for item in items for term in _terms(item)]
    if isinstance(key, int):
        return _stored_term(value)
    if key == "kernel" or key in PARTS:
        return _kernel(value)
    return _reference(value) if key == "reference" else value


def _terms(value: Any) -> list[Any]:
    """Return the terms of an objective, or a list that contains any other value."""
    if not isinstance(value, gx.Objective):
        return [value]
    terms = value.terms if isinstance(value, Sum) else ((1.0, value),)
    return [_term(weight, term) for weight, term in terms]


def _term(weight: float, term: gx.Objective) -> dict[Any, Any]:
    found = _component(term, OBJECTIVES)
    ((name, parameters),) = found.items() if isinstance(found, dict) else [(found, {})]
    return {name: parameters if weight == 1 else {**parameters, "weight": weight}}


def _stored_term(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {PythonObject.stored(key): item for key, item in value.items()}
    return PythonObject.stored(value)


def _policy(value: Any) -> Any:
    if isinstance(value, gx.Policy):
        return _component(value, POLICIES)
    return PythonObject.stored(value)


def _kernel(value: Any) -> Any:
    if isinstance(value, Normalised):
        return _kernel(value.kernel)
    if isinstance(value, Custom):
        return _function(value.function)
    if isinstance(value, gx.Kernel):
        return _component(value, KERNELS)
    return _function(value)


def _component(value: Description, known: Mapping[str, Any]) -> Any:
    """Return ``{name: {parameters}}``, or the object itself if its class has no name in a study."""
    name = next((name for name, each in known.items() if each.component is type(value)), None)
    if name is None or any(not each.repr and _is_set(value, each) for each in fields(value)):  # type: ignore[arg-type]
        return PythonObject.of(value, f"{type(value).__module__}:{type(value).__qualname__}")
    given = [each.name for each in fields(value) if _is_set(value, each)]  # type: ignore[arg-type]
    return {name: {key: _parameter(key, getattr(value, key)) for key in given}}


def _is_set(value: Description, parameter: Field[Any]) -> bool:
    """Return whether a parameter differs from its default."""
    found = getattr(value, parameter.name)
    return (
        parameter.default is MISSING
        or type(found) is not type(parameter.default)
        or bool(found != parameter.default)
    )


def _parameter(key: str, value: Any) -> Any:
    if key == "kernel" or key in PARTS:
        return _kernel(value)
    if key == "reference":
        return _reference(value)
    return "inf" if isinstance(value, float) and math.isinf(value) else value
