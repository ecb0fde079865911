"""The pages: a frame, what is in it, and its data for the script to show.

Whatever comes from a run reaches the page as JSON in a block that browsers do not run, and from there
as text: nothing of it is ever read as HTML.
"""

from __future__ import annotations

import json
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any

TEMPLATES = Path(__file__).parent / "templates"


def runs(entries: list[dict[str, Any]], root: Path) -> str:
    return _page("Runs", "runs", {"runs": entries, "root": str(root)})


def run(name: str, state: dict[str, Any]) -> str:
    return _page(name, "run", state)


def compare(curves: dict[str, Any]) -> str:
    return _page("Compare runs", "compare", curves)


def login(why: str | None) -> str:
    return _framed("Token", _template("login").substitute(why=escape(why or "")), "")


def message(status: int, words: str) -> str:
    content = _template("message").substitute(status=status, words=escape(words))
    return _framed("Not found" if status == 404 else "Error", content, "")


def _page(title: str, kind: str, data: dict[str, Any]) -> str:
    script = _template("script").substitute(kind=kind, data=inert(data))
    return _framed(title, _template(kind).substitute(), script)


def _framed(title: str, main: str, script: str) -> str:
    return _template("frame").substitute(title=escape(title), main=main, script=script)


def inert(data: Any) -> str:
    """JSON that cannot end the block that it stands in."""
    text = json.dumps(data, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _template(name: str) -> Template:
    return Template((TEMPLATES / f"{name}.html").read_text("utf-8"))
