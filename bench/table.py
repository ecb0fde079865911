"""The results of a benchmark: tables of costs with ratios, claims with targets, as text and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.machine import machine

Size = Literal["full", "quick", "tiny"]


@dataclass(frozen=True)
class Row:
    """One contestant: its cost in the unit of the table, and the loss and gap it reached."""

    who: str
    cost: float
    loss: float | None = None
    gap: float | None = None
    how: str = "measured"
    """How the cost was determined, e.g. measured or scaled."""


@dataclass(frozen=True)
class Table:
    """Contestants in one task; ratios are relative to the first row."""

    title: str
    unit: str
    rows: Sequence[Row]
    reached: str = "loss"
    """Heading of the losses, if they are something else."""

    def ratio(self, row: Row) -> float:
        return row.cost / self.rows[0].cost

    def __str__(self) -> str:
        cells = [["", self.unit, "ratio", self.reached, "gap", ""]]
        for row in self.rows:
            reached = [_brief(row.loss, 10), _brief(row.gap, 2)]
            cells.append([row.who, _brief(row.cost), f"{self.ratio(row):,.4g}×", *reached, row.how])
        return "\n".join([self.title, *_aligned(cells)])

    def plain(self) -> dict[str, Any]:
        rows = [asdict(row) | {"ratio": self.ratio(row)} for row in self.rows]
        return {"title": self.title, "unit": self.unit, "reached": self.reached, "rows": rows}


@dataclass(frozen=True)
class Claim:
    """A number and its target, which applies at full size."""

    what: str
    value: float
    target: float
    at_least: bool = True

    @property
    def met(self) -> bool:
        return self.value >= self.target if self.at_least else self.value <= self.target

    def __str__(self) -> str:
        verdict = "met" if self.met else "NOT met"
        return f"{self.what}: {_brief(self.value)} (target {self._bound}: {verdict})"

    @property
    def at_small_size(self) -> str:
        """The claim without a verdict, since the target is for the full size."""
        return f"{self.what}: {_brief(self.value)} (at full size {self._bound})"

    @property
    def _bound(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.target:g}"


@dataclass(frozen=True)
class Report:
    """The complete output of a benchmark."""

    title: str
    size: Size
    parameters: Mapping[str, Any]
    tables: Sequence[Table] = ()
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers for the JSON file."""

    def __str__(self) -> str:
        settings = ", ".join(f"{key} {value}" for key, value in self.parameters.items())
        parts = [self.title, f"{self.size} size: {settings}"]
        parts += ["\n" + str(table) for table in self.tables]
        if self.claims:
            full = self.size == "full"
            claims = [f"  {claim if full else claim.at_small_size}" for claim in self.claims]
            parts += ["\nclaims and their targets:", *claims]
        if self.notes:
            parts += ["", *(f"  note: {note}" for note in self.notes)]
        return "\n".join(parts)

    def plain(self) -> Any:
        found = {
            "title": self.title,
            "size": self.size,
            "parameters": self.parameters,
            "machine": machine(),
            "tables": [table.plain() for table in self.tables],
            "claims": [asdict(claim) | {"met": claim.met} for claim in self.claims],
            "notes": self.notes,
            "figures": self.figures,
        }
        return _jsonable(found)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.plain(), indent=2, ensure_ascii=False, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")


def _brief(value: float | None, digits: int = 4) -> str:
    if value is None:
        return ""
    whole = 1000 <= abs(value) < 1e7 and digits <= 4
    return f"{value:,.0f}" if whole else f"{value:.{digits}g}"


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines without empty columns; names and remarks are left-aligned, numbers right-aligned."""
    used = [any(column[1:]) for column in zip(*cells, strict=True)]
    cells = [[cell for cell, use in zip(row, used, strict=True) if use] for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for name, *numbers, remark in cells:
        padded = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=False)]
        lines.append("  " + "  ".join([name.ljust(widths[0]), *padded, remark]).rstrip())
    return lines


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # arrays and numpy scalars
        return _jsonable(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity
    return value if isinstance(value, str | int | float | None) else str(value)
