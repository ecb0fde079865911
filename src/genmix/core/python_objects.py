"""Python objects in a study: functions, arrays and components that a file cannot contain.

A study refers to such an object by a name with a digest of its content. The name is all that a journal
stores, so the object has to be passed again when the run is resumed.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from dis import get_instructions
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, WrapValidator

from genmix.core.arrays import is_torch, to_numpy
from genmix.core.description import Description
from genmix.core.text import quotable
from genmix.errors import InputError

STORED = re.compile(r"<(.+) #([0-9a-f]{12})>")
"""The pattern of names."""

LARGE_ARRAY = 1_000_000
"""Number of entries above which an array that a function holds is not part of the function's digest."""


class PythonObject(str):
    """The name of an object, such as ``<__main__:caption #1a2b3c4d5e6f>``, and the object itself."""

    _held: tuple[Any, ...] = ()

    @classmethod
    def of(cls, value: Any, label: str) -> Self:
        """Name an object after ``label`` and its content."""
        found = cls(f"<{quotable(label, most=100)} #{digest_of(value)}>")
        found._held = (value,)
        return found

    @classmethod
    def stored(cls, text: Any) -> Any:
        """Return the name of a missing object if ``text`` is one, else ``text``."""
        is_name = type(text) is str and STORED.fullmatch(text)
        return cls(text) if is_name else text

    @property
    def label(self) -> str:
        """The name without its digest."""
        return str(self)[1:-1].rpartition(" #")[0]

    @property
    def digest(self) -> str:
        return str(self)[1:-1].rpartition(" #")[2]

    @property
    def is_missing(self) -> bool:
        """Whether only the name is known, because the study was read from a journal."""
        return not self._held

    def get(self) -> Any:
        """Return the object; raise InputError if it is missing."""
        if self.is_missing:
            raise InputError(
                f"the journal contains only the name of the Python object {self.label}; pass the same "
                "study again, with that object."
            )
        return self._held[0]


def _keep(value: Any, validate: Any) -> Any:
    return value if isinstance(value, PythonObject) else validate(value)


OR_OBJECT = WrapValidator(_keep)
"""Annotates a field that accepts a Python object in place of text."""


def objects_in(value: Any) -> Iterator[PythonObject]:
    """Find the Python objects in settings."""
    if isinstance(value, PythonObject):
        yield value
    elif isinstance(value, BaseModel):
        yield from objects_in(list(vars(value).values()))
    elif isinstance(value, Mapping):
        yield from objects_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from objects_in(item)


def missing_in(value: Any) -> list[PythonObject]:
    """Return the Python objects in settings of which only the name is known."""
    return [each for each in objects_in(value) if each.is_missing]


def contains_names(plain: Any) -> bool:
    """Return whether a study from a journal contains names of Python objects."""
    if isinstance(plain, Mapping):
        return any(map(contains_names, plain.values()))
    if isinstance(plain, list):
        return any(map(contains_names, plain))
    return isinstance(PythonObject.stored(plain), PythonObject)


# -- functions ---------------------------------------------------------------------------------------


def function_label(function: Any) -> str:
    """Return ``module:name`` for any callable; a partial function is named after its function.

    The name does not include the functions in which a function was defined.
    """
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    name = named.__qualname__.rpartition("<locals>.")[2]
    return f"{getattr(named, '__module__', None) or 'builtins'}:{name}"


def _source(function: Any) -> str:
    """Return the source code, or the compiled code where there is no source, as in a plain prompt."""
    named = function if hasattr(function, "__qualname__") else type(function)
    try:
        return inspect.getsource(named)
    except (OSError, TypeError):
        return _compiled(getattr(inspect.unwrap(function), "__code__", None))


def _compiled(code: CodeType | None) -> str:
    if code is None:
        return ""
    return repr((code.co_code, code.co_names, [_constant(c) for c in code.co_consts]))


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _compiled(value)
    is_set = isinstance(value, frozenset)  # its order differs between processes
    return repr(sorted(map(repr, value))) if is_set else repr(value)


# -- digests -----------------------------------------------------------------------------------------


def digest_of(value: Any) -> str:
    """Return 12 hexadecimal digits; the same content has the same digest in every process."""
    found = hashlib.blake2b(digest_size=6)
    for part in _content(value):
        found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()


def _content(value: Any, inside: tuple[int, ...] = ()) -> Iterator[bytes]:
    """Yield what an object is made of; an object of an unknown type is represented by its type.

    ``inside`` contains the functions that hold this object, because a function can hold itself.
    """
    if isinstance(value, np.ndarray) or is_torch(value):
        array = np.ascontiguousarray(to_numpy(value))
        yield f"{array.dtype.str} {array.shape}".encode()
        yield array.tobytes()
    elif isinstance(value, Description):
        yield type(value).__qualname__.encode()
        if not type(value).__module__.startswith("genmix."):
            yield _source(type(value)).encode()
        names: list[str] = [each.name for each in fields(value)] if is_dataclass(value) else []
        yield from _content([getattr(value, name) for name in names], inside)
    elif isinstance(value, Mapping):
        yield from _content([part for item in value.items() for part in item], inside)
    elif isinstance(value, list | tuple):
        yield str(len(value)).encode()
        for part in value:
            yield from _content(part, inside)
    elif isinstance(value, functools.partial):
        yield from _content([value.func, value.args, value.keywords], inside)
    elif value is None or isinstance(value, bool | int | float | str | bytes | np.generic):
        yield repr(value).encode("utf-8", "surrogatepass")
    elif callable(value):
        yield f"{function_label(value)}\n{_source(value)}".encode("utf-8", "surrogatepass")
        if id(value) in inside:
            return
        inside = (*inside, id(value))
        yield from _content(getattr(value, "__defaults__", None), inside)
        yield from _content(getattr(value, "__kwdefaults__", None), inside)
        for name, held in sorted(_held(value).items()):
            yield name.encode("utf-8", "surrogatepass")
            is_state = isinstance(held, list | dict | set | bytearray)  # e.g. a cache
            is_large = isinstance(held, np.ndarray) and held.size > LARGE_ARRAY
            yield from _content(type(held).__name__ if is_state or is_large else held, inside)
    else:
        yield f"{type(value).__module__}.{type(value).__qualname__}".encode()


def _held(function: Any) -> dict[str, Any]:
    """Return the values that a function took from where it was defined, or the attributes of its object."""
    if isinstance(function, MethodType):
        return _held(function.__func__) | _attributes(function.__self__)
    if not isinstance(function, FunctionType):
        return _attributes(function)
    code, found = function.__code__, dict[str, Any]()
    changed = {each.argval for each in get_instructions(code) if each.opname == "STORE_DEREF"}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if name not in changed:  # a variable that it sets itself is state, e.g. a counter
            with suppress(ValueError):  # the variable has no value yet
                found[name] = cell.cell_contents
    return found


def _attributes(owner: Any) -> dict[str, Any]:
    """Return the public attributes of an object, but not those of a class, a module or a torch model."""
    if isinstance(owner, type | ModuleType | BuiltinFunctionType) or hasattr(owner, "state_dict"):
        return {}
    attributes = getattr(owner, "__dict__", {})
    return {name: each for name, each in attributes.items() if not name.startswith("_")}
