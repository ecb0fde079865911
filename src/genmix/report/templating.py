"""The Jinja environment of the report; all values inserted into templates are escaped."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from genmix.core.text import interval_text, percent, shortened, visible


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("genmix.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_without_controls,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"percent": percent, "shortened": shortened, "interval": interval_text}
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return made


def render_template(name: str, **values: Any) -> str:
    return environment().get_template(name).render(**values)


def _without_controls(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
