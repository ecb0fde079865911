"""Import optional packages where they are used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from typing import Any

from genmix.core.text import describe_error, listed
from genmix.errors import InputError

PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn", "vl_convert": "vl-convert-python"}
"""Packages whose names differ from the names of their modules, keyed by module."""


def package_of(module: str) -> str:
    """Return the name of the package that provides a module."""
    top = module.split(".")[0]
    return PACKAGES.get(top, top.replace("_", "-"))


def is_installed(module: str) -> bool:
    """Return whether a module can be found, without importing it."""
    try:
        return importlib.util.find_spec(module.split(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def require(module: str, extra: str, what: str) -> Any:
    """Import a module, or raise an InputError that says how to install it."""
    return require_all((module,), extra, what)[0]


def require_all(modules: Iterable[str], extra: str, what: str) -> list[Any]:
    """Import modules, or raise an InputError that names all missing packages and one command."""
    found, missing = [], []
    for module in modules:
        try:
            found.append(importlib.import_module(module))
        except ModuleNotFoundError as error:  # the module, or one that it imports
            missing.append(error.name or module)
        except ImportError as error:
            raise InputError(
                f"{what} needs the {package_of(module)} package, which is installed but cannot be "
                f"imported ({describe_error(error)}); install it again."
            ) from error
    if missing:
        raise InputError(missing_packages(missing, what, extra))
    return found


def missing_packages(modules: Iterable[str], what: str, extra: str = "") -> str:
    """Return a sentence that names all packages and one command that installs them."""
    packages = list(dict.fromkeys(map(package_of, modules)))
    noun, them = ("package", "it") if len(packages) == 1 else ("packages", "them")
    part = f" (the extra 'genmix[{extra}]')" if extra else ""
    return (
        f"{what} needs the {listed(packages)} {noun}; install {them} with "
        f"pip install {' '.join(packages)}{part}."
    )


def in_notebook() -> bool:
    """Return whether a notebook kernel can display HTML below the running cell."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
