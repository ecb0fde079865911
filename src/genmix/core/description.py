"""Immutable descriptions (objectives, kernels, policies, solvers) and their serialized form.

A description is a frozen dataclass. It has a readable repr, compares by content, and converts to
plain arrays and JSON values and back, so that a saved state can contain it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from genmix.core.arrays import is_torch, to_numpy
from genmix.errors import InputError


class Description:
    """Base class for all descriptions. Defining a subclass registers it by name."""

    known: ClassVar[dict[str, type[Description]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        holder = Description.known.get(cls.__name__)
        if (
            holder is not None
            and holder.__module__.startswith("genmix.")
            and (cls.__module__ != holder.__module__)
        ):
            raise InputError(f"genmix already has a class named {cls.__name__}; rename your class.")
        Description.known[cls.__name__] = cls

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in _fields(self))

    def __hash__(self) -> int:
        return hash((type(self).__name__, repr(self)))


def _fields(value: Any) -> tuple[dataclasses.Field[Any], ...]:
    """Return the parameters; a description without parameters need not be a dataclass."""
    return dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) or is_torch(a):
        return (isinstance(b, np.ndarray) or is_torch(b)) and np.array_equal(
            to_numpy(a), to_numpy(b)
        )
    return bool(a == b)


def to_plain(value: Any) -> Any:
    """Convert ``value`` to nested dicts and lists of JSON values and numpy arrays."""
    if isinstance(value, Description):
        fields = _fields(value)
        plain = {f.name: to_plain(getattr(value, f.name)) for f in fields}
        return {"type": type(value).__name__, **plain}
    if isinstance(value, np.ndarray) or is_torch(value):
        return np.array(to_numpy(value))
    if isinstance(value, Mapping):
        names = [str(key) for key in value]
        return {"type": "map", "keys": names, "values": [to_plain(v) for v in value.values()]}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, np.generic):
        return to_plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return {"type": "float", "value": str(value)}  # JSON has no infinity
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if callable(value):
        return {"type": "function", "name": function_name(value)}
    raise InputError(f"{value!r} cannot be saved in a state; use numbers, text or arrays.")


def from_plain(value: Any) -> Any:
    """Invert :func:`to_plain`; lists become tuples, and functions become :class:`Missing`."""
    if isinstance(value, list | tuple):
        return tuple(from_plain(item) for item in value)
    if not isinstance(value, Mapping):
        return value
    kind = value["type"]
    if kind == "float":
        return float(value["value"])
    if kind == "map":
        return dict(zip(value["keys"], from_plain(value["values"]), strict=True))
    if kind == "function":
        return Missing(value["name"])
    if kind not in Description.known:
        raise InputError(
            f"the state refers to {kind!r}, which is not defined; "
            "import the module that defines it first."
        )
    fields = {key: from_plain(item) for key, item in value.items() if key != "type"}
    return Description.known[kind](**fields)


def function_name(function: Any) -> str:
    """Return a name for a function; the name is the same in every process."""
    if isinstance(function, Missing):
        return function.name
    return getattr(function, "__qualname__", None) or type(function).__name__


@dataclasses.dataclass(frozen=True)
class Missing:
    """Placeholder for a function, because a saved state contains only its name."""

    name: str

    def __call__(self, *_: Any) -> Any:
        raise InputError(
            f"the saved state does not contain the code for the function {self.name}; "
            "pass objective= to Selector.from_state_dict."
        )


def names_function(plain: Any) -> bool:
    """Return whether the result of :func:`to_plain` refers to a function."""
    if isinstance(plain, Mapping):
        return plain.get("type") == "function" or any(map(names_function, plain.values()))
    return isinstance(plain, list | tuple) and any(map(names_function, plain))


def is_built_in(value: Any) -> bool:
    """Return whether a description has neither functions nor classes that users wrote."""
    if isinstance(value, Description):
        parts = [getattr(value, field.name) for field in _fields(value)]
        return type(value).__module__.startswith("genmix.") and all(map(is_built_in, parts))
    if isinstance(value, Mapping):
        return all(map(is_built_in, value.values()))
    if isinstance(value, tuple | list):
        return all(map(is_built_in, value))
    return not callable(value)


def graft(stored: Any, given: Any) -> Any:
    """Replace each missing function in ``stored`` with the one at its position in ``given``."""
    if isinstance(stored, Missing):
        return given
    if isinstance(stored, tuple) and isinstance(given, tuple) and len(stored) == len(given):
        return tuple(graft(a, b) for a, b in zip(stored, given, strict=True))
    if isinstance(stored, Description) and type(stored) is type(given):
        names = [f.name for f in _fields(stored)]
        parts = {n: graft(getattr(stored, n), getattr(given, n)) for n in names}
        return type(stored)(**parts)
    return stored


def has_missing(value: Any) -> str | None:
    """Return the name of the first missing function in ``value``, or None."""
    if isinstance(value, Missing):
        return value.name
    if isinstance(value, tuple):
        children = list(value)
    elif isinstance(value, Description):
        children = [getattr(value, f.name) for f in _fields(value)]
    else:
        return None
    return next((name for name in map(has_missing, children) if name is not None), None)
