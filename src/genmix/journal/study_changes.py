"""Changes to a study during its run: what they were, in words, and the order in which arms appeared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from genmix.core.text import listed


def arms_in_order(
    first: Iterable[str], events: Iterable[Mapping[str, Any]], arms: Iterable[str]
) -> list[str]:
    """Return arms in the order in which they appeared, so that their colors do not change.

    ``first`` are the arms with which the run began (empty if its study has not changed), and ``arms`` are
    all others.
    """
    added = [e["arm"] for e in events if e["kind"] == "changed" and _is_whole_arm(e)]
    return list(dict.fromkeys([*first, *(added if first else ()), *arms]))


def _is_whole_arm(event: Mapping[str, Any]) -> bool:
    """Return whether an arm was added or removed."""
    return event["arm"] is not None and event["detail"].get("key") == f"arms.{event['arm']}"


def change_in_words(event: Mapping[str, Any]) -> str:
    """Describe a change to the study, e.g. ``weights is now at least 20% a; it was none``."""
    detail = event["detail"]
    key, old, new = (detail.get(name) for name in ("key", "old", "new"))
    if not (isinstance(key, str) and isinstance(old, str) and isinstance(new, str)):
        return str(detail.get("why"))
    if _is_whole_arm(event):
        return "removed from the study" if new == "none" else "added to the study"
    name = key.removeprefix(f"arms.{event['arm']}.")
    return f"{name} is now {_setting_in_words(new)}; it was {_setting_in_words(old)}"


def limits_in_words(at_least: Mapping[str, float], at_most: Mapping[str, float]) -> str:
    """Describe limits on the weights, e.g. ``at least 20% a and at most 70% b``."""
    least = [f"at least {100 * share:g}% {arm}" for arm, share in at_least.items()]
    return listed([*least, *(f"at most {100 * share:g}% {arm}" for arm, share in at_most.items())])


def _setting_in_words(text: str) -> str:
    """Describe a setting that a journal stores as JSON or as plain text."""
    try:
        found = json.loads(text)
        if isinstance(found, dict) and {"at_least", "at_most"} & set(found):
            return limits_in_words(found.get("at_least") or {}, found.get("at_most") or {})
        return _plain(found)
    except (ValueError, TypeError, AttributeError, RecursionError):  # not JSON, or not from genmix
        return text


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        known = {key: each for key, each in value.items() if each is not None}
        return ", ".join(f"{key} {_plain(each)}" for key, each in known.items()) or "none"
    if isinstance(value, list):
        return listed(map(_plain, value)) if value else "none"
    return value if isinstance(value, str) else json.dumps(value)
