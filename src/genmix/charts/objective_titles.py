"""The objective of a study in words, for the titles of pages: ``Vendi (order 1, cosine kernel)``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from genmix.charts.axes import short_name
from genmix.core.description import Description
from genmix.core.python_objects import PythonObject
from genmix.core.text import listed

FULL_NAMES = {"FD": "Fréchet distance", "KD": "kernel distance"}
WORDS = {
    "order": "order {}",
    "k": "{} neighbors",
    "at": "{} draws",
    "bandwidth": "bandwidth {}",
    "features": "{} random features",
    "degree": "degree {}",
}
"""Parameters that matter to a reader; all others are in the study."""


def objective_title(terms: Any) -> str:
    """Describe the terms of a study's objective; what is not a term is shown as it is."""
    found = [_title(*_parts(term)) for term in terms] if isinstance(terms, Iterable) else []
    return " + ".join(found)


def _parts(component: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the parameters of an objective or a kernel."""
    if isinstance(component, Description):
        parameters = fields(component)  # type: ignore[arg-type]
        return type(component).__name__, {f.name: getattr(component, f.name) for f in parameters}
    if isinstance(component, Mapping) and component:
        name, settings = next(iter(component.items()))
        return str(name), settings if isinstance(settings, Mapping) else {}
    return str(component), {}


def _title(name: str, settings: Mapping[str, Any]) -> str:
    from genmix.study.components import objective_classes

    weight, title = settings.get("weight", 1), short_name(_plain(name).replace("-", "_"))
    title = FULL_NAMES.get(title, title)
    details = list(_details(settings, objective_classes().get(name)))
    words = f"{title} ({', '.join(details)})" if details else title
    return words if weight == 1 else f"{_value(weight)} × {words}"


def _details(settings: Mapping[str, Any], known: type | None) -> Iterator[str]:
    """Yield the parameters in words, including the defaults of a known class."""
    defaults = {f.name: f.default for f in fields(known)} if known else {}
    for key in {**defaults, **settings}:
        value = settings.get(key)
        value = defaults.get(key) if value is None else value
        if key == "kernel" and value is not None:
            yield kernel_title(value)
        elif key in WORDS and isinstance(value, int | float | str):
            yield WORDS[key].format(_value(value))


def kernel_title(kernel: Any) -> str:
    """Describe a kernel, or its settings in a study, e.g. ``Gaussian kernel with bandwidth 3``."""
    name, settings = _parts(kernel)
    given = {key: value for key, value in settings.items() if value is not None}
    if name.lower() == "gaussian":
        given = {"bandwidth": "median"} | given
    details = [WORDS[key].format(_value(value)) for key, value in given.items() if key in WORDS]
    title = f"{'Gaussian' if name.lower() == 'gaussian' else _plain(name).lower()} kernel"
    text = f"{title} with {listed(details)}" if details else title
    return text.replace("bandwidth median", "the median bandwidth")


def _plain(name: str) -> str:
    """Return the name of a component; of a Python object, the name without its module and digest."""
    found = PythonObject.stored(name)
    return found.label.rpartition(":")[2] if isinstance(found, PythonObject) else name


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}".replace("inf", "∞")
    return "∞" if value == "inf" else str(value)
