"""How the demo looks: a progress line on stderr, a table on stdout."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from genmix.demo.run import DemoResult, Scores, Step

LINES = 8
"""How many plain progress lines a run prints where a live line cannot be drawn."""


class ProgressLine:
    """Shows each step: one live line on a terminal, a plain line now and then elsewhere."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("", total=None, news="")
        self.next_line = 0

    def __enter__(self) -> ProgressLine:
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def __call__(self, step: Step) -> None:
        if self.console.is_terminal:
            self.bar.update(
                self.task,
                description=step.stage,
                completed=step.done,
                total=step.total or None,
                news=step.news,
            )
        elif step.done >= self.next_line or step.done == step.total:
            self.next_line = step.done + max(1, step.total // LINES)
            count = f" {step.done}/{step.total} " if step.total else ""
            self.console.print(f"{step.stage}{count}{step.news}", soft_wrap=True, highlight=False)


def print_result(result: DemoResult) -> None:
    console = Console()
    console.print(result_table(result))
    console.print(closing_lines(result), highlight=False)
    basis = ", ".join(f"{key} {value}" for key, value in result.basis.items())
    console.print(f"{result.metric} depends on: {basis}.", highlight=False)


def result_table(result: DemoResult) -> Table:
    """One row per generator; where the run went to its end, one per mixture below them."""
    arrow = "↑" if result.maximise else "↓"
    table = Table(title=f"Mixture-Greedy on the digits, seed {result.seed}")
    table.add_column("generator")
    table.add_column("knows")
    table.add_column("samples", justify="right")
    table.add_column("weight", justify="right")
    if result.scores:
        table.add_column("best weight", justify="right")
        table.add_column(f"{result.metric} {arrow}", justify="right")
    for name, weight in result.weights.items():
        row = [name, result.knows[name], str(result.counts[name]), f"{weight:.3f}"]
        if scores := result.scores:
            row += [f"{scores.oracle_weights[name]:.3f}", f"{scores.singles[name]:.3f}"]
        table.add_row(*row)
    if result.scores:
        add_mixtures(table, result.scores)
    return table


def add_mixtures(table: Table, scores: Scores) -> None:
    table.add_section()
    mixtures = {
        "learnt mixture": scores.learnt,
        "uniform mixture": scores.uniform,
        "best mixture": scores.oracle,
    }
    for name, score in mixtures.items():
        table.add_row(name, "", "", "", "", f"{score:.3f}")


def closing_lines(result: DemoResult) -> str:
    """What came out, in words."""
    if result.scores is None:
        return f"Interrupted after {sum(result.counts.values())} samples; gap {result.gap:.1e}."
    scores = result.scores
    single = scores.best_single(result.maximise)
    return (
        f"{result.metric}: learnt mixture {scores.learnt:.3f}, best single generator "
        f"{scores.singles[single]:.3f} ({single}), best mixture {scores.oracle:.3f}.\n"
        f"Gap: the learnt weights are within {result.gap:.1e} of the least loss on the samples "
        f"of the run, the best mixture within {scores.oracle_gap:.1e} on the pools."
    )
