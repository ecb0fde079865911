"""A comparison as a table for the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from genmix.comparison.statistics import Interval
from genmix.core.text import aligned

if TYPE_CHECKING:
    from genmix.comparison.comparison import Comparison, Outcome

HEADS = (
    "policy",
    "score at T",
    "± 95 %",
    "mixture",
    "regret",
    "exponent",
    "least share",
    "locked out",
    "within 1 %",
    "within 5 %",
)


def page(found: Comparison) -> str:
    """Settings, a line for every policy, and the paired differences."""
    differences = tests(found)
    below = ["", *differences] if differences else []
    return "\n".join([*heading(found), "", *aligned(outcome_rows(found)), *below])


def heading(found: Comparison) -> list[str]:
    """What was compared, and the best that could be reached."""
    plan, arrow = found.plan, "↑" if found.maximise else "↓"
    return [
        f"{plan.world.name}: {found.score_name} {arrow} by {plan.objective!r}",
        f"{found.repeats} paired repeats of {plan.options.rounds} samples, "
        f"warm start {plan.options.warm_start}, encoder {plan.world.encoder or 'unstated'}",
        *([best_line(found)] if plan.options.population else []),
    ]


def outcome_rows(found: Comparison) -> list[list[str]]:
    """The names of the columns, and a row for every policy."""
    cells = [[found.named(policy), *_cells(each)] for policy, each in found.outcomes.items()]
    return [list(HEADS), *cells]


def best_line(found: Comparison) -> str:
    """The best mixture of the pools, and the best arm."""
    best = found.plan.best
    shares = ", ".join(f"{arm} {weight:.2f}" for arm, weight in found.best_weights.items())
    return (
        f"best mixture {found.best_score:.5g} ({shares}), gap {best.gap:.0e}; best arm "
        f"{found.plan.best_arm}"
    )


def _cells(outcome: Outcome) -> list[str]:
    slope = outcome.exponent
    return [
        f"{outcome.pooled.mean:.5g}",
        _half(outcome.pooled),
        "–" if outcome.mixture is None else f"{outcome.mixture.mean:.5g}",
        "–" if outcome.regret is None else f"{outcome.regret.mean:.4g}",
        "–" if slope is None else f"{slope.slope:.2f} [{slope.low:.2f}, {slope.high:.2f}]",
        f"{outcome.least_share.mean:.3f}",
        "–" if outcome.locked_out is None else f"{outcome.locked_out:.0%}",
        *(_time(outcome.reached.get(near)) for near in ("1%", "5%")),
    ]


def _half(interval: Interval) -> str:
    half = (interval.high - interval.low) / 2
    return "–" if math.isnan(half) else f"{half:.2g}"


def _time(value: float | None) -> str:
    if value is None:
        return "–"
    return "not" if math.isinf(value) else f"{value:.0f}"


def tests(found: Comparison) -> list[str]:
    """Paired differences, a line each."""
    lines = []
    for row in found.test_table():
        verdict = {True: "better", False: "worse", None: "no difference seen"}[row["better"]]
        lines.append(
            f"{found.named(row['policy'])} − {found.named(row['against'])}: {row['difference']:+.4g} "
            f"[{row['low']:+.4g}, {row['high']:+.4g}], p {row['p_t']:.2g} (t), "
            f"{row['p_wilcoxon']:.2g} (Wilcoxon): {verdict}"
        )
    return lines
