"""A comparison as a table for the terminal and as charts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from genmix.charts.axes import direction, short_name
from genmix.comparison.statistics import Exponent, Interval
from genmix.comparison.variant import has_fixed_weights
from genmix.core.text import aligned, counted, number, rounded

if TYPE_CHECKING:
    from genmix.comparison.comparison import Comparison
    from genmix.comparison.outcome import Outcome

HEADINGS = (
    "policy",
    "score at T",
    "± 95%",
    "mixture",
    "regret",
    "exponent",
    "smallest share",
    "locked out",
    "within 1%",
    "within 5%",
)
TIME_AXIS = "samples drawn (log scale)"
VERDICTS = {True: "better", False: "worse", None: "no significant difference"}


# -- text --------------------------------------------------------------------------------------------


def page(found: Comparison) -> str:
    """Format the settings, one line per policy, and the paired differences."""
    differences = tests(found)
    below = ["", *differences] if differences else []
    return "\n".join([*heading(found), "", *aligned(outcome_rows(found)), *below])


def heading(found: Comparison) -> list[str]:
    """Return lines that describe what was compared, and the best mixture."""
    plan, arrow = found.plan, "↑" if found.maximise else "↓"
    return [
        f"{plan.world.name}: {found.score_name} {arrow} by {rounded(repr(plan.objective))}",
        f"{counted(found.repeats, 'paired repeat')} of {counted(plan.options.rounds, 'sample')}, "
        f"warm start {plan.options.warm_start}, encoder {plan.world.encoder or 'unknown'}",
        *([best_line(found)] if plan.options.population else []),
    ]


def outcome_rows(found: Comparison) -> list[list[str]]:
    """Return the column headings and one row per policy."""
    rows = [[found.named(policy), *_cells(each)] for policy, each in found.outcomes.items()]
    return [list(HEADINGS), *rows]


def best_line(found: Comparison) -> str:
    best = found.plan.best
    line = (
        f"best mixture {found.best_score:.5g} ({_weights(found.best_weights)}), gap "
        f"{number(best.gap, 1)}; best arm {found.plan.best_arm}"
    )
    if found.best_for_all is None:
        return line
    return (
        f"{line.replace('best mixture', 'best mixture per group', 1)}; best mixture for all groups "
        f"{found.best_for_all:.5g} ({_weights(found.plan.best_for_all)})"
    )


def _weights(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{arm} {weight:.2f}" for arm, weight in weights.items())


def _cells(outcome: Outcome) -> list[str]:
    return [
        f"{outcome.pooled.mean:.5g}",
        _half_width(outcome.pooled),
        "–" if outcome.mixture is None else f"{outcome.mixture.mean:.5g}",
        "–" if outcome.regret is None else f"{outcome.regret.mean:.4g}",
        exponent_text(outcome.exponent),
        *exploration_text(outcome),
        *(reached_text(outcome, near, "never") for near in ("1%", "5%")),
    ]


def _half_width(interval: Interval) -> str:
    half = (interval.high - interval.low) / 2
    return "–" if math.isnan(half) else f"{half:.2g}"


def exponent_text(found: Exponent | None) -> str:
    return "–" if found is None else f"{found.slope:.2f} [{found.low:.2f}, {found.high:.2f}]"


def exploration_text(outcome: Outcome) -> tuple[str, str]:
    """Format the smallest share of any arm, and how often an arm of the best mixture was locked out."""
    locked_out = "–" if outcome.locked_out is None else f"{outcome.locked_out:.0%}"
    return f"{outcome.least_share.mean:.3f}", locked_out


def reached_text(outcome: Outcome, near: str, never: str) -> str:
    """Format the time after which the mixture stays near the best one."""
    time = outcome.reached.get(near)
    if time is None:
        return "–"
    return never if math.isinf(time) else f"{time:.0f}"


def tests(found: Comparison) -> list[str]:
    """Format the paired differences, one line each; verdicts are corrected for the number of lines."""
    return [
        f"{found.named(row['policy'])} − {found.named(row['against'])}: {row['difference']:+.4g} "
        f"[{row['low']:+.4g}, {row['high']:+.4g}], p {row['p_t']:.2g} (t), "
        f"{row['p_wilcoxon']:.2g} (Wilcoxon), {row['p_holm']:.2g} (t, Holm): {VERDICTS[row['better']]}"
        for row in found.test_table()
    ]


# -- charts ------------------------------------------------------------------------------------------


def comparison_charts(found: Comparison) -> dict[str, Any]:
    """Draw the charts and return them by file name."""
    from genmix import charts

    def panel(title: str, what: str, y: str, **more: Any) -> Any:
        return charts.Panel(title, found.band_rows(what), y, x=TIME_AXIS, **more)

    pooled = panel("All samples so far", "pooled", score_axis(found), log_y=is_distance(found))
    made = {"pooled": charts.curves([pooled])}
    if rows := _share_rows(found):
        made["shares"] = charts.shares(rows, TIME_AXIS, log_x=True)  # like the other charts
    explored = panel("Smallest share of any arm", "least_share", "min n_i(t)/t")
    if not found.plan.options.population:
        return made | {"exploration": charts.curves([explored])}
    mixture = panel(
        "Population score of the mixture", "mixture", score_axis(found), log_y=is_distance(found)
    )
    regret = panel("Regret", "regret", "cumulative regret ↓ (log scale)", log_y=True)
    made["overview"] = charts.curves([pooled, mixture, regret, explored])
    return made


def score_axis(found: Comparison) -> str:
    """Return the name of the score, which direction is better, and whether the axis is logarithmic."""
    name = f"{short_name(found.score_name)} {direction(found.maximise)}".replace("  ", " ")
    return f"{name} (log scale)" if is_distance(found) else name


def is_distance(found: Comparison) -> bool:
    """Return whether scores decrease toward 0, so that a logarithmic axis shows differences best."""
    return found.score_name in ("frechet_distance", "kernel_distance")


def _share_rows(found: Comparison) -> list[dict[str, Any]]:
    """Return the mean weights of the arms over time, one panel per policy that learns."""
    rows = []
    for policy, variant in found.plan.variants.items():
        if has_fixed_weights(variant):
            continue
        for t, weights in zip(found.times, found.weights(policy).mean(axis=0), strict=True):
            rows += [
                {"panel": policy, "x": int(t), "arm": arm, "share": float(w)}
                for arm, w in zip(found.plan.arms, weights, strict=True)
            ]
    return rows
