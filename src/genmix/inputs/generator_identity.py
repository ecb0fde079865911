"""Tell whether arms of several runs are the same generator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from genmix.core.python_objects import PythonObject
from genmix.core.user_functions import source_of_module
from genmix.data.text_files import resolved

PATHS = ("path", "prompts_file")
"""Settings that are paths relative to the study."""


def identity(
    settings: Mapping[str, Any] | None, folder: Path | None, source: str | None = None
) -> str | None:
    """Return text that is equal for equal generators, or None if the generator is not known.

    Parameters
    ----------
    settings : dict, optional
        The settings of the arm.
    folder : Path, optional
        The folder that the paths and functions in the settings are relative to.
    source : str, optional
        A digest of the source file of the arm's function, at the time of the run.
    """
    if settings is None or folder is None:
        return None
    found = dict(settings)
    for key in PATHS:
        if isinstance(found.get(key), str):
            found[key] = str(resolved(found[key], folder))
    if isinstance(model := found.get("model"), str) and (place := resolved(model, folder)).is_dir():
        found["model"] = str(place)
    if "command" in found:
        found["folder"] = str(resolved(folder))
    function = PythonObject.stored(found.get("function"))
    if isinstance(function, str) and not isinstance(function, PythonObject):
        module, _, name = function.partition(":")
        file = source_of_module(module, folder)
        if file is None:
            return None
        found["function"] = f"{file}:{name} {source}"
    return json.dumps(found, sort_keys=True)
