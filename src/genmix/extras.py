"""Packages that only some parts need, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from genmix.errors import InputError


def need(module: str, extra: str, what: str) -> Any:
    """The module, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise  # it is there, but something that it needs is not
        raise InputError(
            f"{what} needs the package {module.split('.')[0]}: pip install 'genmix[{extra}]'."
        ) from error
