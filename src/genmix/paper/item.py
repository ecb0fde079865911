"""What an item of the paper is: a figure or table that can be made again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]


def _silent(_: str) -> None:
    """Progress that nobody looks at."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How items are made."""

    quick: bool = False
    """Fewer repeats and rounds: for a look, not for conclusions."""
    worlds: Path | None = None
    """The folder of recorded worlds; None: wherever they are found."""
    features: Path | None = None
    """The folder of the paper's own feature files, where somebody has them."""
    workers: int = 1
    seed: int = 0
    out: Path = Path("paper")
    progress: Callable[[str], None] = _silent


@dataclass(frozen=True)
class Made:
    """What came out of an item."""

    tables: dict[str, Rows]
    charts: dict[str, Any] = field(repr=False)
    text: str
    """Markdown: what came out, the paper's values beside ours."""


@dataclass(frozen=True)
class Item:
    """A figure or a table of the paper, or one that goes beyond it."""

    name: str
    title: str
    needs: str
    """Which feature files --features should hold."""
    stands_in: str
    """Which recorded worlds are taken without them."""
    choice: str
    """Where the paper contradicts itself: what was taken. Empty if it does not."""
    make: Callable[[Setting], Made] = field(repr=False)
