"""Comparisons in Markdown."""

from __future__ import annotations

import math

from genmix.experiments.comparison import Comparison, Outcome
from genmix.experiments.paper import text
from genmix.experiments.statistics import Interval
from genmix.experiments.words import best_line


def settings_line(found: Comparison) -> str:
    options, world = found.plan.options, found.plan.world
    return (
        f"{found.repeats} paired repeats, T = {options.rounds}, warm start {options.warm_start}; "
        f"{found.objective!r}; encoder {world.encoder or 'unstated'}, d = {world.dimension}, "
        f"{len(world.arms)} arms."
    )


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
    table = text.table(heads, [_row(outcome) for outcome in found.outcomes.values()])
    return f"{' '.join(lines)}\n\n{table}\n"


def _row(outcome: Outcome) -> list[str]:
    slope = outcome.exponent
    times = [outcome.reached.get(near) for near in ("1%", "5%")]
    return [
        outcome.policy,
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
    if math.isnan(half):
        return f"{interval.mean:.4g}"
    digits = 3 if not half else max(0, 1 - math.floor(math.log10(half)))
    return f"{interval.mean:.{min(digits, 6)}f} ± {half:.{min(digits, 6)}f}"


def _time(value: float | None) -> str:
    if value is None:
        return "–"
    return "not reached" if math.isinf(value) else f"{value:.0f}"


def tests_table(found: Comparison) -> str:
    """The first policy against the others."""
    words = {True: "better", False: "worse", None: "no difference seen"}
    rows = [
        [
            f"{row['policy']} − {row['against']}",
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
