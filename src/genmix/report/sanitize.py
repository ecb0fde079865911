"""Text of other people, made fit for a page: nothing that a generator says can become markup or script."""

from __future__ import annotations

import html
import json
from typing import Any

from genmix.core.text import JOINERS
from genmix.study.secrets import lines_with_secrets

HIDDEN = "(hidden: this line looks like a secret)"
IN_SCRIPT = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


def escaped(text: object) -> str:
    """Fit for an element's text and for an attribute in double quotes."""
    return html.escape(visible(str(text)), quote=True)


def visible(text: str) -> str:
    """The text with � for controls and for marks that turn the order of what follows."""
    return "".join(c if c.isprintable() or c in JOINERS or c in "\n\t" else "\ufffd" for c in text)


def clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def script_json(value: Any) -> str:
    """JSON for the inside of a script element: it has no ``<``, so it can neither end nor open one."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in IN_SCRIPT.items():
        text = text.replace(character, escape)
    return text


def without_secrets(text: str) -> str:
    """The text with what looks like a secret hidden, a line at a time."""
    bad = set(lines_with_secrets(text))
    return "\n".join(
        HIDDEN if number in bad else line for number, line in enumerate(text.split("\n"), 1)
    )
