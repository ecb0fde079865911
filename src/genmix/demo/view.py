"""How the demo looks: a progress line on stderr, a table on stdout."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
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
            TextColumn("{task.fields[count]} {task.fields[news]}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
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
            self._draw(step)
        elif step.done >= self.next_line or step.done == step.total:
            self.next_line = step.done + max(1, step.total // LINES)
            line = " ".join(part for part in (step.stage, step.count, step.news) if part)
            self.console.print(line, soft_wrap=True, highlight=False)

    def _draw(self, step: Step) -> None:
        """A stage without a known length gets a bar that only says that it is alive."""
        if [task.description for task in self.bar.tasks] != [step.stage]:
            for task in self.bar.task_ids:
                self.bar.remove_task(task)
            self.bar.add_task(step.stage, total=step.total or None, count="", news="")
        self.bar.update(self.bar.task_ids[0], completed=step.done, count=step.count, news=step.news)


def print_result(result: DemoResult) -> None:
    console = Console()
    console.print(result_table(result))
    for line in closing_lines(result):
        console.print(line, highlight=False)


def result_table(result: DemoResult) -> Table:
    """One row per generator; where the run went to its end, one per mixture below them."""
    table = Table(title=f"Mixture-Greedy on the digits, seed {result.seed}")
    table.add_column("generator")
    table.add_column("knows")
    for heading in ("samples", "weight"):
        table.add_column(heading, justify="right")
    if result.scores:
        for heading in ("best weight", f"{result.metric} {'↑' if result.maximise else '↓'}", "gap"):
            table.add_column(heading, justify="right")
    for name, weight in result.weights.items():
        row = [name, result.knows[name], str(result.counts[name]), f"{weight:.3f}"]
        if scores := result.scores:
            row += [f"{scores.oracle_weights[name]:.3f}", f"{scores.singles[name]:.3f}"]
        table.add_row(*row)
    if result.scores:
        add_mixtures(table, result.scores, result)
    return table


def add_mixtures(table: Table, scores: Scores, result: DemoResult) -> None:
    table.add_section()
    for name, samples, score, gap in (
        ("learnt mixture", str(result.drawn), scores.learnt, f"{result.gap:.0e}"),
        ("uniform mixture", "", scores.uniform, ""),
        ("best mixture", "", scores.oracle, f"{scores.oracle_gap:.0e}"),
    ):
        table.add_row(name, "", samples, "", "", f"{score:.3f}", gap)


def closing_lines(result: DemoResult) -> list[str]:
    """What came out, and what the numbers depend on."""
    if result.scores is None:
        return [f"Interrupted after {result.drawn} samples; gap {result.gap:.0e}."]
    scores = result.scores
    single = scores.best_single(result.maximise)
    basis = ", ".join(f"{key} {value}" for key, value in result.basis.items())
    return [
        f"The learnt mixture scores {scores.learnt:.3f}, the best single generator "
        f"{scores.singles[single]:.3f} ({single}), "
        f"the {result.drawn} samples of the run together {result.pooled:.3f}.",
        f"Scores in the table are of {scores.pool} fresh samples per generator; "
        "the best mixture is the optimum on them.",
        "The gap bounds how far a loss is from its minimum: the learnt mixture's on the samples "
        "of the run, the best mixture's on the fresh ones.",
        f"{result.metric} depends on {basis}.",
    ]
