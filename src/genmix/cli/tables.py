"""Print scores and mixtures as tables or JSON on stdout, and progress on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from genmix.core.plain import by_name, finite, plain_scores
from genmix.core.text import interval_text, number

if TYPE_CHECKING:
    import genmix as gx
    from genmix.objectives import Score

PLAIN_LINES = 8
"""Number of progress lines that a long command prints without a terminal."""

SLOW = 2.0
"""Number of seconds after which the progress of the intervals is shown."""


def print_scores(table: gx.ScoreTable, counts: Mapping[str, int]) -> None:
    names = list(table.pooled)
    arrows = ["↑" if table.pooled[name].maximise else "↓" for name in names]
    headings = ["arm", "n", *(f"{n} {arrow}" for n, arrow in zip(names, arrows, strict=True))]
    rows = [
        [label, str(n), *(_brief(row.get(name)) for name in names)]
        for label, n, row in (
            *((arm, counts[arm], row) for arm, row in table.arms.items()),
            ("pooled", sum(counts.values()), table.pooled),
        )
    ]
    print_table(headings, rows)
    for name in names:
        typer.echo(f"pooled: {table.pooled[name]}")


def print_mixture(
    found: gx.Mixture,
    counts: Mapping[str, int],
    leave_one_out: bool,
    intervals: gx.Uncertainty | None = None,
) -> None:
    scores = by_name(found.score)
    headings = ["arm", "n", "weight", *(f"{name} alone" for name in scores), "loss alone"]
    rows = []
    for name, weight in found.weights.items():
        alone = by_name(found.single_scores[name])
        row = [name, str(counts[name]), f"{weight:.4f}", *(_brief(s) for s in alone.values())]
        rows.append([*row, f"{found.single_losses[name]:.6g}"])
    if intervals is not None:
        headings.insert(3, f"{intervals.level:.0%} interval")
        for row, interval in zip(rows, intervals.weights.values(), strict=True):
            row.insert(3, interval_text(interval))
    if leave_one_out:
        headings += ["loss increase without it", "active"]
        for row, (name, rise) in zip(rows, found.leave_one_out.items(), strict=True):
            row += [f"{max(rise, 0.0):.4g}", "yes" if name in found.active else "no"]
    print_table(headings, rows)
    for score in scores.values():
        typer.echo(f"mixture: {score}")
    typer.echo(
        f"mixture: loss {found.loss:.8g}, at most {number(found.gap, 2)} above the minimum on these samples"
    )
    for line in found.limit_lines:
        typer.echo(line)
    for line in [] if intervals is None else _interval_lines(intervals, list(scores)):
        typer.echo(line)


def _interval_lines(intervals: gx.Uncertainty, names: Sequence[str]) -> list[str]:
    ranges = zip(names, intervals.scores.values(), strict=True)
    shown = ", ".join(f"{name} {interval_text(interval, 'g')}" for name, interval in ranges)
    return [
        f"other samples: {shown} in {intervals.level:.0%} of cases, by {intervals.replicates} bootstrap "
        "replicates",
        *intervals.sentences,
    ]


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns: full width in a pipe, folded to fit a terminal."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, heading in enumerate(headings):
        table.add_column(Text(heading), justify="right" if index else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console()
    if not console.is_terminal:
        wide = console.options.update(max_width=100_000)
        console.width = max(1, Measurement.get(console, wide, table).maximum)
    console.print(table)


def print_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def _brief(score: Score | None) -> str:
    return "–" if score is None else f"{float(score):.6g}"


def plain_table(table: gx.ScoreTable) -> dict[str, Any]:
    arms = {name: plain_scores(row) for name, row in table.arms.items()}
    return {"arms": arms, "pooled": plain_scores(table.pooled)}


def find_intervals(found: gx.Mixture, wanted: bool | None) -> gx.Uncertainty | None:
    """Return the intervals of a mixture; None, with a note, if they are slow or impossible.

    If ``wanted`` is True, they are computed even if this takes long, and errors are raised.
    """
    from genmix.errors import InputError
    from genmix.report.intervals import MAX_ARMS
    from genmix.report.run_pool import is_heavy

    if wanted is False:
        return None
    if found.pool.samples is None:
        why = "intervals resample the samples, which requires them in memory"
        if wanted:
            raise InputError(f"{why}; remove --intervals, or pass fewer samples.")
        typer.echo(f"no intervals, because {why}", err=True)
        return None
    if wanted is None and (is_heavy(found.pool) or len(found.weights) > MAX_ARMS):
        typer.echo(
            "no intervals, because they would take long; pass --intervals to compute them", err=True
        )
        return None
    begin = monotonic()
    try:
        with counter("intervals") as report:

            def report_if_slow(done: int, total: int) -> None:
                if monotonic() - begin > SLOW:
                    report(done, total)

            return found.intervals(progress=report_if_slow)
    except InputError as error:
        if wanted:
            raise
        typer.echo(f"no intervals: {error}", err=True)
        return None


def plain_mixture(
    found: gx.Mixture, leave_one_out: bool, intervals: gx.Uncertainty | None = None
) -> dict[str, Any]:
    singles = {name: plain_scores(score) for name, score in found.single_scores.items()}
    plain: dict[str, Any] = {
        "objective": str(found.objective),
        "weights": found.weights,
        "scores": plain_scores(found.score),
        "single_scores": singles,
        "loss": finite(found.loss),
        "single_losses": {name: finite(loss) for name, loss in found.single_losses.items()},
        "gap": finite(found.gap),
        "iterations": found.iterations,
    }
    if found.region is not None:
        plain["binding"] = list(found.binding)
        plain["price_of_money"] = found.price_of_money
    if leave_one_out:
        plain["leave_one_out"] = {n: finite(rise) for n, rise in found.leave_one_out.items()}
        plain["active"] = list(found.active)
    if intervals is not None:
        plain["intervals"] = finite(intervals.as_dict())
    return plain


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show progress like ``counter``, with a known total."""
    with counter(title) as report:
        yield lambda done: report(done, total)


@contextmanager
def counter(title: str) -> Iterator[Callable[..., None]]:
    """Show a progress bar on stderr, or occasional lines without a terminal.

    Call the function that it yields with the number of completed steps, the total, and possibly another
    title.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, visible=False)

        def report(done: int, total: int, now: str = title) -> None:
            bar.update(task, completed=done, total=total, visible=total > 0, description=now)
            is_due = done % max(1, total // PLAIN_LINES) == 0 or done == total
            if is_due and not console.is_terminal:
                typer.echo(f"{now} {done:,}/{total:,}", err=True)

        yield report
