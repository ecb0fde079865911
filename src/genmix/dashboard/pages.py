"""The HTML pages, rendered from templates.

Data from a run reaches the page as JSON in a block that browsers do not execute. The page's script
inserts it as text, so it is never parsed as HTML.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"


def data_page(kind: str, title: str, data: Any) -> str:
    """Render a page that a script draws from ``data``; ``kind`` is runs, run or compare."""
    return _render(kind, title=title, script=kind, data=data)


def login_page(error: str | None) -> str:
    return _render("login", title="Log in", error=error)


def message_page(status: int, message: str) -> str:
    title = "Not found" if status == 404 else "Error"
    return _render("message", title=title, message=message)


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(f"{template}.html").render(values)


@cache
def _environment() -> Environment:
    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    return environment
