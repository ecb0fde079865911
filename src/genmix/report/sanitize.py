"""Make text from generators and failures safe to show."""

from __future__ import annotations

from genmix.core.text import JOINERS
from genmix.study.secrets import lines_with_secrets

HIDDEN = "(hidden: this line looks like a secret)"


def visible(text: str) -> str:
    """Replace control characters with �, including those that reorder text."""
    return "".join(c if c.isprintable() or c in JOINERS or c in "\n\t" else "\ufffd" for c in text)


def without_secrets(text: str) -> str:
    """Hide every line that looks like a secret."""
    bad = set(lines_with_secrets(text))
    return "\n".join(
        HIDDEN if number in bad else line for number, line in enumerate(text.split("\n"), 1)
    )
