"""Comparisons in Markdown."""

from __future__ import annotations

import math

from genmix.comparison.comparison import Comparison, Outcome
from genmix.comparison.plan import Options
from genmix.comparison.statistics import Interval
from genmix.comparison.words import best_line
from genmix.paper import text


def settings_line(found: Comparison) -> str:
    options, world = found.plan.options, found.plan.world
    return (
        f"{found.repeats} paired repeats, T = {options.rounds}, warm start {options.warm_start}, "
        f"{_solving(options)}; {found.objective!r}; encoder {world.encoder or 'unstated'}, "
        f"d = {world.dimension}, {len(world.arms)} arms of {_sizes(found)} samples."
    )


def _solving(options: Options) -> str:
    """How often it is solved, and how arms are drawn where that is not at random."""
    growth = options.resolve_growth
    often = f"at {100 * growth:g} % growth" if growth else "in every round"
    return f"re-solved {often}" + ("" if options.draw == "iid" else f", drawn by {options.draw}")


def _sizes(found: Comparison) -> str:
    sizes = sorted({len(pool) for pool in found.plan.world.arms.values()})
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def outcome_table(found: Comparison) -> str:
    """Every policy at the end, and what the best mixture would be."""
    arrow = "↑" if found.maximise else "↓"
    heads = [
        "policy",
        f"score at T {arrow}",
        "mixture's population score",
        "regret",
        "exponent",
        "least share",
        "locked out",
        "within 1 % / 5 % at",
    ]
    lines = [settings_line(found)]
    if found.plan.options.population:
        lines.append(f"B{best_line(found)[1:]}.")
    rows = [[found.named(policy), *_row(each)] for policy, each in found.outcomes.items()]
    table = text.table(heads, rows)
    return f"{' '.join(lines)}\n\n{table}\n"


def _row(outcome: Outcome) -> list[str]:
    slope = outcome.exponent
    times = [outcome.reached.get(near) for near in ("1%", "5%")]
    return [
        plus_minus(outcome.pooled),
        "–" if outcome.mixture is None else plus_minus(outcome.mixture),
        "–" if outcome.regret is None else f"{outcome.regret.mean:.3g}",
        "–" if slope is None else f"{slope.slope:.2f} [{slope.low:.2f}, {slope.high:.2f}]",
        f"{outcome.least_share.mean:.3f}",
        "–" if outcome.locked_out is None else f"{outcome.locked_out:.0%}",
        " / ".join(_time(value) for value in times),
    ]


def plus_minus(interval: Interval) -> str:
    """A mean and half of its 95 % interval, to the digits that it has."""
    half = (interval.high - interval.low) / 2
    if math.isnan(half) or half <= 1e-12 * abs(interval.mean):  # one repeat, or no chance in it
        return f"{interval.mean:.4g}"
    digits = max(0, 1 - math.floor(math.log10(half)))
    if digits > 6:
        return f"{interval.mean:.3g} ± {half:.1e}"
    return f"{interval.mean:.{digits}f} ± {half:.{digits}f}"


def _time(value: float | None) -> str:
    if value is None:
        return "–"
    return "not reached" if math.isinf(value) else f"{value:.0f}"


def tests_table(found: Comparison) -> str:
    """The first policy against the others."""
    words = {True: "better", False: "worse", None: "no difference seen"}
    rows = [
        [
            f"{found.named(row['policy'])} − {found.named(row['against'])}",
            f"{row['difference']:+.3g} [{row['low']:+.3g}, {row['high']:+.3g}]",
            f"{row['p_t']:.2g}",
            f"{row['p_wilcoxon']:.2g}",
            words[row["better"]],
        ]
        for row in found.test_table()
    ]
    if not rows:
        return ""
    heads = ["paired difference at T", "95 %", "p (t)", "p (Wilcoxon)", ""]
    return text.table(heads, rows) + "\n"
