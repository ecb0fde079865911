"""The rows that a figure is drawn from, checked: plain numbers, with None where there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from genmix.errors import InputError

Row = dict[str, Any]


def cleaned(
    rows: Iterable[Mapping[str, Any]],
    texts: Sequence[str],
    numbers: Sequence[str],
    where: str,
    optional: Sequence[str] = (),
) -> list[Row]:
    """Rows with these texts and numbers alone; NaN and infinity become None, which leaves a gap."""
    found = [_cleaned(row, texts, numbers, where, optional) for row in rows]
    if not found:
        raise InputError(f"{where} has no rows: give at least one.")
    return found


def by_panel(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The rows of each panel, in the order in which panels first come; one without a name is ""."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(str(row.get("panel") or ""), []).append(row)
    return found


def place_of(rows: Iterable[Mapping[str, Any]], key: str) -> dict[str, int]:
    """The values of a column, each with its place, in the order in which they first come."""
    return {value: i for i, value in enumerate(dict.fromkeys(row[key] for row in rows))}


def check_single(rows: Iterable[Row], keys: Sequence[str], where: str) -> None:
    """Two rows in the same place would be drawn over each other."""
    seen = set()
    for row in rows:
        place = tuple(row[key] for key in keys)
        if place in seen:
            raise InputError(f"{where} has two rows for {row[keys[0]]!r}: give one for each label.")
        seen.add(place)


def finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _cleaned(
    row: Mapping[str, Any],
    texts: Sequence[str],
    numbers: Sequence[str],
    where: str,
    optional: Sequence[str],
) -> Row:
    for key in (*texts, *numbers):
        if key not in row:
            raise InputError(
                f"A row of {where} has no {key!r}: it has {', '.join(row) or 'nothing'}."
            )
    found: Row = {key: str(row[key]) for key in texts}
    for key in (*numbers, *optional):
        found[key] = _number(row.get(key), f"{key!r} in a row of {where}")
    return found


def _number(value: Any, what: str) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} is {value!r}: give a number, or None for a gap.") from error
    return number if math.isfinite(number) else None
