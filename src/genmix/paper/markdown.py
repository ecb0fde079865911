"""Tables, numbers and comparisons as Markdown, and Markdown tables as LaTeX (with the package booktabs)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from genmix.comparison.comparison import Comparison
from genmix.comparison.outcome import Outcome
from genmix.comparison.presentation import (
    VERDICTS,
    best_line,
    exploration_text,
    exponent_text,
    reached_text,
)
from genmix.comparison.statistics import Interval
from genmix.comparison.worlds import World


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table with aligned columns that is also readable as plain text."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (headings, *rows)]
    widths = [max(3, *(len(row[k]) for row in cells)) for k in range(len(headings))]
    aligned = [
        [f"{cell:{'>' if k else '<'}{widths[k]}}" for k, cell in enumerate(row)] for row in cells
    ]
    rule = [f"{'-' * (width - bool(k))}{':' if k else ''}" for k, width in enumerate(widths)]
    lines = [aligned[0], rule, *aligned[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(mean: float | None, std: float | None) -> str:
    return "–" if mean is None or std is None else f"{mean:.3g} ± {std:.1g}"


def plus_minus(interval: Interval) -> str:
    """Format a mean and half the width of its 95% interval, rounded to significant digits."""
    half = (interval.high - interval.low) / 2
    if math.isnan(half) or half <= 1e-12 * abs(interval.mean):  # one repeat, or no randomness
        return f"{interval.mean:.4g}"
    digits = max(0, 1 - math.floor(math.log10(half)))
    if digits > 6:
        return f"{interval.mean:.3g} ± {half:.1e}"
    return f"{interval.mean:.{digits}f} ± {half:.{digits}f}"


def data_line(world: World) -> str:
    """Describe the data of a world."""
    parts = [
        f"{len(world.arms)} arms",
        f"{_pool_sizes(world)} samples each",
        f"dimension {world.dimension}",
    ]
    if world.reference is not None:
        parts.append(f"{len(world.reference)} reference samples")
    parts.append(f"encoder {world.encoder or 'unknown'}")
    return ", ".join(parts) + (f" ({world.note.rstrip('.')})." if world.note else ".")


def _pool_sizes(world: World) -> str:
    sizes = sorted({len(pool) for pool in world.arms.values()})
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


# -- comparisons -------------------------------------------------------------------------------------


def settings_line(found: Comparison) -> str:
    options, world = found.plan.options, found.plan.world
    growth = options.resolve_growth
    solved = f"at {100 * growth:g}% growth" if growth else "in every round"
    drawn = "" if options.draw in (None, "iid") else f", drawn by {options.draw}"
    return (
        f"{found.repeats} paired repeats, T = {options.rounds}, warm start {options.warm_start}, "
        f"re-solved {solved}{drawn}; {found.objective!r}; encoder {world.encoder or 'unknown'}, "
        f"d = {world.dimension}, {len(world.arms)} arms of {_pool_sizes(world)} samples."
    )


def outcome_table(found: Comparison) -> str:
    """Format the settings, the best mixture, and the outcome of every policy."""
    headings = [
        "policy",
        f"score at T {'↑' if found.maximise else '↓'}",
        "population score of the mixture",
        "regret",
        "exponent",
        "smallest share",
        "locked out",
        "within 1% / 5% after",
    ]
    lines = [settings_line(found)]
    if found.plan.options.population:
        lines.append(f"B{best_line(found)[1:]}.")
    rows = [[found.named(policy), *_cells(each)] for policy, each in found.outcomes.items()]
    return f"{' '.join(lines)}\n\n{table(headings, rows)}\n"


def _cells(outcome: Outcome) -> list[str]:
    return [
        plus_minus(outcome.pooled),
        "–" if outcome.mixture is None else plus_minus(outcome.mixture),
        "–" if outcome.regret is None else f"{outcome.regret.mean:.3g}",
        exponent_text(outcome.exponent),
        *exploration_text(outcome),
        " / ".join(reached_text(outcome, near, "not reached") for near in ("1%", "5%")),
    ]


def tests_table(found: Comparison) -> str:
    """Format the tests of the first policy against each of the others."""
    rows = [
        [
            f"{found.named(row['policy'])} − {found.named(row['against'])}",
            f"{row['difference']:+.3g} [{row['low']:+.3g}, {row['high']:+.3g}]",
            f"{row['p_t']:.2g}",
            f"{row['p_wilcoxon']:.2g}",
            f"{row['p_holm']:.2g}",
            VERDICTS[row["better"]],
        ]
        for row in found.test_table()
    ]
    headings = ["paired difference at T", "95%", "p (t)", "p (Wilcoxon)", "p (t, Holm)", ""]
    return table(headings, rows) + "\n" if rows else ""


# -- LaTeX -------------------------------------------------------------------------------------------

SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "∞": r"$\infty$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "–": "--",
    "…": r"\ldots{}",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "δ": r"$\delta$",
    "ε": r"$\varepsilon$",
    "η": r"$\eta$",
    "κ": r"$\kappa$",
    "λ": r"$\lambda$",
    "σ": r"$\sigma$",
}
"""Characters that LaTeX cannot print as they are; all other characters are left to UTF-8 input."""

CELL = re.compile(r"(?<!\\)\|")
"""The border of a cell; a bar inside a cell is escaped."""


def latex_tables(text: str) -> str:
    """Return every Markdown table in the text as a ``table`` float, each with its heading as caption.

    The result is empty if there is no table.
    """
    found, heading, rows = [], "", list[str]()
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append(line)
            continue
        if rows:
            found.append(_latex_table(rows, heading))
            rows = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
    return "\n\n".join(found) + "\n" if found else ""


def _latex_table(lines: list[str], caption: str) -> str:
    head, rule, *rows = map(_split, lines)
    columns = "".join("r" if cell.endswith(":") else "l" for cell in rule)
    body = [f"    {' & '.join(map(latex, row))} \\\\" for row in (head, *rows)]
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{latex(caption)}}}",
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            body[0],
            r"    \midrule",
            *body[1:],
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def _split(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in CELL.split(line.strip())[1:-1]]


def latex(text: str) -> str:
    """Escape text for LaTeX; ``**bold**`` becomes bold and ``code`` becomes typewriter text."""
    escaped = "".join(SPECIAL.get(character, character) for character in text)
    bold = re.sub(r"\*\*(.+?)\*\*", r"\\textbf{\1}", escaped)
    code = re.sub(r"`(.+?)`", r"\\texttt{\1}", bold)
    return f"{{}}{code}" if code.startswith("[") else code
