"""Packages that only some parts need, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from genmix.errors import InputError

PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn", "vl_convert": "vl-convert-python"}
"""Packages that are not called as their module is."""


def package_of(module: str) -> str:
    """What to install for a module."""
    top = module.split(".")[0]
    return PACKAGES.get(top, top.replace("_", "-"))


def need(module: str, extra: str, what: str) -> Any:
    """The module, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise  # it is there, but something that it needs is not
        raise InputError(
            f"{what} needs the package {package_of(module)}: pip install {package_of(module)} "
            f"(it is in the extra '{extra}')."
        ) from error
