"""What other programs say, made fit to be quoted: one short line, and no secret in it."""

from __future__ import annotations

from collections.abc import Iterable

SHORTEST_SECRET = 6
"""Shorter values (a number of threads, say) are no secrets, and would be found everywhere."""


def quotable(text: object, secrets: Iterable[str] = (), most: int = 200) -> str:
    """The text in one line of at most ``most`` characters, without the secrets."""
    found = str(text)
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            found = found.replace(secret, "***")
    line = " ".join(found.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def fault(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """An exception as a short phrase."""
    said = quotable(error, secrets)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
