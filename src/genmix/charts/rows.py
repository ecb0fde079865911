"""Validate the rows of a chart: plain numbers, with None for a gap."""

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
    """Keep only these text and number fields; NaN and infinity become None, which leaves a gap."""
    found = [_cleaned(row, texts, numbers, where, optional) for row in rows]
    if not found:
        raise InputError(f"{where} has no rows; pass at least one.")
    return found


def panel_name(title: str) -> str:
    """Name the panel in an error message."""
    return f"the panel {title!r}" if title else "the chart"


def by_panel(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Group rows by panel, in order of first appearance; the key of an unnamed panel is ""."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(str(row.get("panel") or ""), []).append(row)
    return found


def unique(rows: Iterable[Mapping[str, Any]], key: str) -> list[str]:
    """Return the distinct values of a column, in order of first appearance."""
    return list(dict.fromkeys(row[key] for row in rows))


def check_unique(rows: Iterable[Row], keys: Sequence[str], where: str) -> None:
    """Refuse rows that would be drawn on top of each other."""
    seen = set()
    for row in rows:
        position = tuple(row[key] for key in keys)
        if position in seen:
            raise InputError(f"{where} has two rows for {row[keys[0]]!r}; pass one per label.")
        seen.add(position)


def check_x(rows: Iterable[Row], log_x: bool, where: str) -> None:
    if any(row["x"] is None or (log_x and row["x"] <= 0) for row in rows):
        wanted = "a positive number, or set log_x=False" if log_x else "a number"
        raise InputError(f"A row of {where} has no position on the x axis; pass {wanted}.")


def known(values: Iterable[float | None]) -> list[float]:
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
                f"A row of {where} has no {key!r}; add it (found: {', '.join(row) or 'nothing'})."
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
        raise InputError(f"{what} is {value!r}; pass a number, or None for a gap.") from error
    return number if math.isfinite(number) else None
