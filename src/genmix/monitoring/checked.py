"""Check the values in a journal before the pages use them, because anybody may have written it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from genmix.core.text import quotable
from genmix.journal.reader import Row
from genmix.journal.schema import JournalError

MAX_TIME = 1e11
"""Latest valid time in seconds since 1970, thousands of years from now."""

MAX_ARMS = 10_000
MAX_EVENTS = MAX_POINTS = 100_000
"""Maximum numbers of arms, events and timeline rows of a run."""

Check = Callable[[Any], bool]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def is_time(value: Any) -> bool:
    return is_number(value) and 0 <= value <= MAX_TIME


def is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_names(value: Any) -> bool:
    return is_list(value) and len(value) <= MAX_ARMS and all(map(is_text, value))


def is_map(value: Any) -> bool:
    return isinstance(value, dict)


def is_list(value: Any) -> bool:
    return isinstance(value, list)


def is_numbers(value: Any) -> bool:
    """Return whether this maps names to numbers, including NaN and infinity, or None."""
    kinds = int | float | None
    return is_map(value) and all(isinstance(number, kinds) for number in value.values())


def or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def checked(value: Any, check: Check, name: str) -> Any:
    """Return the value, or raise JournalError if it is invalid."""
    if not check(value):
        is_plain = isinstance(value, int | float | None)
        shown = quotable(value, most=40) if is_plain else type(value).__name__
        raise JournalError(
            f"The journal contains an invalid value for {name} ({shown}); restore it from a backup."
        )
    return value


def checked_rows(rows: Iterable[Row], most: int, **checks: Check) -> list[Row]:
    """Return the rows, or raise JournalError if there are too many or a value is invalid."""
    found = list(rows)
    if len(found) > most:
        raise JournalError(
            f"The journal has more than {most} rows where few are expected; restore it from a backup."
        )
    for row in found:
        for name, check in checks.items():
            checked(row[name], check, name)
    return found


def checked_counts(counts: Mapping[Any, Any]) -> dict[str, int]:
    """Check the number of samples by arm."""
    if len(counts) > MAX_ARMS:
        raise JournalError(f"The journal has more than {MAX_ARMS} arms; restore it from a backup.")
    return {
        checked(arm, is_text, "arm"): checked(n, is_count, "count") for arm, n in counts.items()
    }


def checked_study(study: Any) -> dict[str, Any]:
    checked(study, is_map, "study")
    for name, check in (("arms", is_map), ("budget", is_map), ("objective", is_list)):
        checked(study.get(name, {} if check is is_map else []), check, f"study.{name}")
    checked(len(study.get("arms", {})), lambda n: n <= MAX_ARMS, "the number of arms")
    for name, value in study.get("budget", {}).items():
        checked(value, or_none(is_number), f"budget.{quotable(name, most=40)}")
    return study  # type: ignore[no-any-return]


def checked_events(rows: Iterable[Row]) -> list[Row]:
    return checked_rows(
        rows,
        MAX_EVENTS,
        id=is_count,
        at=is_time,
        kind=is_text,
        arm=or_none(is_text),
        detail=is_map,
    )


def checked_timeline(rows: Iterable[Row]) -> list[Row]:
    scores = or_none(is_numbers)
    return checked_rows(
        rows, MAX_POINTS, samples=is_count, weights=is_numbers, score=scores, pooled=scores
    )


def checked_samples(rows: Iterable[Row]) -> list[Row]:
    text, number = or_none(is_text), or_none(is_number)
    return checked_rows(
        rows,
        MAX_POINTS,
        id=is_count,
        arm=is_text,
        at=is_time,
        text=text,
        length=or_none(is_count),
        image=text,
        prompt=text,
        source=text,
        quality=number,
        cost=number,
    )


def checked_failures(rows: Iterable[Row]) -> list[Row]:
    return checked_rows(
        rows,
        MAX_POINTS,
        id=is_count,
        arm=is_text,
        at=is_time,
        stage=is_text,
        message=is_text,
        ticket=is_count,
    )
