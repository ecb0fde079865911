"""Numbers and tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from genmix.comparison.worlds import World
from genmix.diagnosis.halves import Spread


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with its columns aligned, so that it reads as it is."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (headings, *rows)]
    widths = [max(3, *(len(row[k]) for row in cells)) for k in range(len(headings))]
    aligned = [
        [f"{cell:{'>' if k else '<'}{widths[k]}}" for k, cell in enumerate(row)] for row in cells
    ]
    rule = [f"{'-' * (width - bool(k))}{':' if k else ''}" for k, width in enumerate(widths)]
    lines = [aligned[0], rule, *aligned[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def spread(found: Spread | None) -> str:
    return "–" if found is None else f"{found.mean:.3g} ± {found.std:.1g}"


def data_line(world: World) -> str:
    """What the numbers of a world come from."""
    sizes = sorted({len(rows) for rows in world.arms.values()})
    n = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    words = [f"{len(world.arms)} arms", f"{n} samples each", f"dimension {world.dimension}"]
    if world.reference is not None:
        words.append(f"{len(world.reference)} reference samples")
    words.append(f"encoder {world.encoder or 'unstated'}")
    return ", ".join(words) + (f" ({world.note})." if world.note else ".")
