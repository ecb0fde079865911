"""Plugins: generators, encoders, objectives and policies from other installed packages.

A package adds a kind by declaring an entry point in one of the groups ``genmix.generators``,
``genmix.encoders``, ``genmix.objectives`` and ``genmix.policies``. Study files refer to the kind by
the name of the entry point.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_args

from genmix.core.text import describe_error

KIND = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Plugin:
    """An entry point of an installed package, with its class or a description of the problem."""

    group: str
    name: str
    package: str
    loaded: type[Any] | None = None
    problem: str | None = None


@cache
def find_plugins(
    group: str,
    base: type,
    reserved: frozenset[str],
    check: Callable[[str, type], object] = lambda name, loaded: None,
) -> tuple[Plugin, ...]:
    """Load the plugins in an entry point group; ``reserved`` contains the names of built-in kinds.

    A plugin that cannot be loaded, or for which ``check`` raises, triggers a single warning and does not
    affect the others.
    """
    found: dict[str, Plugin] = {}
    broken = []
    for entry in dict.fromkeys(entry_points(group=group)):
        package = "an unknown package" if entry.dist is None else entry.dist.name
        try:
            loaded = _load(entry, base, reserved | found.keys())
            check(entry.name, loaded)
        except Exception as error:  # third-party code
            message = str(error) if isinstance(error, _PluginError) else describe_error(error)
            problem = f"the plugin {entry.name!r} from {package} cannot be used: {message}."
            broken.append(Plugin(group, entry.name, package, problem=problem))
            warnings.warn(problem, RuntimeWarning, stacklevel=2)
        else:
            found[entry.name] = Plugin(group, entry.name, package, loaded)
    return (*found.values(), *broken)


def plugin_classes(plugins: Collection[Plugin]) -> dict[str, type[Any]]:
    """Return the classes of the usable plugins, keyed by name."""
    return {plugin.name: plugin.loaded for plugin in plugins if plugin.loaded is not None}


class _PluginError(Exception):
    """A plugin violates a requirement. The message is a clause without a period."""


def _load(entry: EntryPoint, base: type, taken: Collection[str]) -> type[Any]:
    if not KIND.fullmatch(entry.name):
        raise _PluginError("its name must consist of lowercase letters, digits and hyphens")
    if entry.name in taken:
        raise _PluginError("its name is taken; choose another one")
    loaded = entry.load()
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        raise _PluginError(f"{entry.value} is not a subclass of {base.__name__}")
    if inspect.isabstract(loaded):
        raise _PluginError(f"{entry.value} is abstract; define all its methods")
    if hasattr(loaded, "model_fields") and kind_of(loaded) != entry.name:
        raise _PluginError(f"{entry.value} must have the field kind: Literal[{entry.name!r}]")
    return loaded


def kind_of(settings: type[Any]) -> str:
    """Return the literal ``kind`` of a settings class, or an empty string."""
    field = settings.model_fields.get("kind")
    values = () if field is None else get_args(field.annotation)
    return str(values[0]) if len(values) == 1 else ""
