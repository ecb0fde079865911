"""Import user functions that a study refers to as ``module:function``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from genmix.core.python_objects import PythonObject
from genmix.core.text import describe_error
from genmix.errors import InputError

FUNCTION_NAME = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"
"""Pattern of ``module:function``."""

RESERVED = sys.stdlib_module_names | {"__main__", "genmix"}
"""Names that are not allowed for modules next to a study file."""

_lock = threading.RLock()
_shadowed: dict[Path, dict[str, ModuleType]] = {}
"""Modules in a folder that share a name with another loaded module, keyed by folder and name."""


def load_function(name: str, folder: Path) -> Callable[..., Any]:
    """Import ``module:function``; a module in ``folder`` takes precedence over an installed one.

    A function that was passed in Python is returned as it is.
    """
    if isinstance(name, PythonObject):
        return name.get()  # type: ignore[no-any-return]
    module, _, attribute = name.partition(":")
    with _importing_from(folder.resolve()):
        found = _import(module, folder.resolve())
    function = getattr(found, attribute, None)
    if not callable(function):
        raise InputError(
            f"the module {module} has no function named {attribute}; correct {name!r}."
        )
    return function  # type: ignore[no-any-return]


def source_of_module(module: str, folder: Path) -> Path | None:
    """Find the source file of a module, next to the study or installed, without importing it."""
    local = folder.resolve().joinpath(*module.split("."))
    for file in (local.with_suffix(".py"), local / "__init__.py"):
        if file.is_file():
            return file
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # the parent is missing, or the module has no spec
        return None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return None
    return Path(spec.origin)


def source_digest(name: str, folder: Path) -> str | None:
    """Return a digest of the source file of ``module:function``; None if there is no such file."""
    file = source_of_module(name.partition(":")[0], folder)
    with suppress(OSError):
        return None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    return None


def shown_name(name: str) -> str:
    """Return the name of a function for messages."""
    return name.label if isinstance(name, PythonObject) else name


def _import(module: str, folder: Path) -> ModuleType:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise InputError(f"the module {module} needs {error.name}; install it.") from error
        raise InputError(
            f"the module {module} is neither in {folder} nor installed; correct the name."
        ) from error
    except Exception as error:  # user code
        raise InputError(
            f"importing {module} failed ({describe_error(error)}); fix the module."
        ) from error
    top = _top(module)
    if _has(folder, top) and not _is_from(folder, top):
        raise InputError(f"another module is named {top}; rename the module in {folder}.")
    return found


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Make the modules in ``folder`` importable, even if loaded modules have the same names.

    Afterward, restore sys.path and the loaded modules with those names.
    """
    with _lock:
        hidden = _taken_elsewhere(folder)
        for name in hidden:
            del sys.modules[name]
        sys.modules.update(_shadowed.get(folder, {}))
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        try:
            yield
        finally:
            with suppress(ValueError):  # the module may have changed sys.path itself
                sys.path.remove(str(folder))
            tops = {_top(name) for name in hidden}
            _shadowed[folder] = {n: m for n, m in sys.modules.items() if _top(n) in tops}
            for name in _shadowed[folder]:
                del sys.modules[name]
            sys.modules.update(hidden)


def _taken_elsewhere(folder: Path) -> dict[str, ModuleType]:
    """Return the modules loaded from elsewhere that share a name with a module in the folder."""
    tops = {_top(name) for name in sys.modules} - RESERVED
    taken = {top for top in tops if _has(folder, top) and not _is_from(folder, top)}
    return {name: module for name, module in sys.modules.items() if _top(name) in taken}


def _top(name: str) -> str:
    return name.partition(".")[0]


def _files(folder: Path, top: str) -> tuple[Path, Path]:
    return folder / f"{top}.py", folder / top / "__init__.py"


def _has(folder: Path, top: str) -> bool:
    return any(file.is_file() for file in _files(folder, top))


def _is_from(folder: Path, top: str) -> bool:
    origin = getattr(sys.modules.get(top), "__file__", None)
    return origin is not None and Path(origin).resolve() in _files(folder, top)
