"""What other programs say, made fit to be quoted: one short printable line, and no secret in it."""

from __future__ import annotations

import re
from collections.abc import Iterable

SHORTEST_SECRET = 6
"""Shorter values (a number of threads, say) are no secrets, and would be found everywhere."""

JOINERS = "\u200c\u200d"
"""Python calls them unprintable; Persian words and many emoji are written with them."""


def printable(text: str) -> str:
    """The text with � for what a terminal may obey, a reader not see, or a file not hold."""
    return "".join(c if c.isprintable() or c in JOINERS else "\ufffd" for c in text)


def quotable(text: object, secrets: Iterable[str] = (), most: int = 200) -> str:
    """The text in one line of at most ``most`` characters, without the secrets."""
    found = str(text)
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            found = found.replace(secret, "***")
    line = printable(" ".join(found.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def fault(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """An exception as a short phrase."""
    said = quotable(error, secrets)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def gist(text: object, secrets: Iterable[str] = ()) -> str:
    """The first sentence of another library's error, fit for the middle of one of ours."""
    return re.split(r"(?<=\S)[.!?;] ", quotable(text, secrets) + " ")[0].strip(" .:")
