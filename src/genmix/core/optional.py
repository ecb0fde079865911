"""Import optional packages where they are used."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from genmix.errors import InputError

PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn", "vl_convert": "vl-convert-python"}
"""Packages whose names differ from the names of their modules, keyed by module."""


def package_of(module: str) -> str:
    """Return the name of the package that provides a module."""
    top = module.split(".")[0]
    return PACKAGES.get(top, top.replace("_", "-"))


def require(module: str, extra: str, what: str) -> Any:
    """Import a module, or raise an InputError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise  # the module is installed, but one of its dependencies is missing
        raise InputError(
            f"{what} needs the {package_of(module)} package; install it with "
            f"pip install {package_of(module)} or with the extra 'genmix[{extra}]'."
        ) from error


def in_notebook() -> bool:
    """Return whether a notebook kernel can display HTML below the running cell."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
