"""Functions that a study names as ``module:function``, from its folder or from what is installed."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from genmix.core.text import fault
from genmix.errors import InputError

_lock = threading.RLock()
_apart: dict[Path, dict[str, ModuleType]] = {}
"""Modules of a folder whose names belong to modules from elsewhere, by folder and name."""

KEPT = sys.stdlib_module_names | {"__main__", "genmix"}
"""Names that no file of a study may take."""


def load_function(name: str, folder: Path) -> Callable[..., Any]:
    """The function ``module:function``; a module in ``folder`` comes before an installed one."""
    module, _, attribute = name.partition(":")
    with _importing_from(folder.resolve()):
        found = _import(module, folder.resolve())
    function = getattr(found, attribute, None)
    if not callable(function):
        raise InputError(f"the module {module} has no function {attribute}: check {name!r}.")
    return function  # type: ignore[no-any-return]


def _import(module: str, folder: Path) -> ModuleType:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise InputError(f"the module {module} needs {error.name}: install it.") from error
        raise InputError(
            f"there is no module {module} in {folder}, and none is installed: check the name."
        ) from error
    except Exception as error:  # it is other people's code
        raise InputError(f"importing {module} failed ({fault(error)}): mend it.") from error
    top = module.partition(".")[0]
    if _has(folder, top) and not _is_from(folder, top):
        raise InputError(f"the name {top} is taken by another module: rename {top} in {folder}.")
    return found


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Modules of ``folder`` can be imported, even if those of another folder have the same names.

    Afterwards sys.path is as before, and so is every name in sys.modules that was taken.
    """
    with _lock:
        hidden = _taken_elsewhere(folder)
        for name in hidden:
            del sys.modules[name]
        sys.modules.update(_apart.get(folder, {}))
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        try:
            yield
        finally:
            with suppress(ValueError):  # the module may have changed the path itself
                sys.path.remove(str(folder))
            tops = {_top(name) for name in hidden}
            _apart[folder] = {n: m for n, m in sys.modules.items() if _top(n) in tops}
            for name in _apart[folder]:
                del sys.modules[name]
            sys.modules.update(hidden)


def _taken_elsewhere(folder: Path) -> dict[str, ModuleType]:
    """Loaded modules whose names are also those of modules in the folder."""
    tops = {_top(name) for name in sys.modules} - KEPT
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
