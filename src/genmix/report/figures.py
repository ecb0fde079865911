"""Draw the charts for a run. The report shows all of them, and ``genmix plot`` saves one to a file.

Each chart computes only the facts that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.charts.axes import direction, short_name
from genmix.charts.leading import MAX_COLORS, OTHERS, Stack, leading, stack
from genmix.core.text import counted, listed
from genmix.report.facts import Facts
from genmix.report.sampling import MAX_POINTS, project
from genmix.report.scoring import Term, Values

MAX_ROWS = 300
"""Maximum number of rows of the timeline to draw."""

GRAY = "#8C8C8C"


def leading_arms(facts: Facts) -> list[str]:
    """Return the arms with the most weight and samples, which get their own colors, in original order."""
    return leading(facts.labels, facts.weights or {}, facts.counts, MAX_COLORS)


def arm_colors(facts: Facts, inks: bool = False) -> dict[str, str]:
    """Assign a color to each leading arm, and a last one to all other arms."""
    from genmix.charts import style

    labels = leading_arms(facts)
    colors = style.arm_inks(labels) if inks else style.arm_colors(labels)
    if len(labels) < len(facts.labels):
        colors[_distinct(OTHERS, labels)] = GRAY
    return colors


def weights_chart(facts: Facts) -> Any:
    from genmix import charts

    timeline = thinned([row for row in facts.timeline if row["samples"] > 0])
    if len(timeline) < 2:
        return None
    layers = weight_layers(facts)
    rows = [
        {"arm": name, "x": row["samples"], "share": share}
        for row in timeline
        for name, share in layers.weights(row["weights"]).items()
    ]
    return charts.shares(rows, colors=arm_colors(facts) if layers.part is None else None)


def weight_layers(facts: Facts) -> Stack:
    """Return what the chart of the weights over time stacks."""
    return stack(facts.labels, facts.weights or {}, facts.counts)


def pooled_chart(facts: Facts) -> Any:
    from genmix import charts
    from genmix.charts.style import BLUE, DASH_DOT, DOTS, Style, arm_inks

    timeline = thinned([row for row in facts.timeline if row["pooled"]])
    if len(timeline) < 2 or not facts.terms:
        return None
    labels = [arm for arm in leading_arms(facts) if facts.single_scores[arm]]
    pooled, uniform = _distinct("all samples so far", labels), _distinct("equal shares", labels)
    styles = {pooled: Style(BLUE)}
    inks = arm_inks(leading_arms(facts))
    styles |= {arm: Style(inks[arm], DASH_DOT) for arm in labels}
    levels: dict[str, Values] = {arm: facts.single_scores[arm] for arm in labels}
    if facts.uniform is not None:
        styles[uniform] = Style(GRAY, DOTS)
        levels[uniform] = facts.uniform.scores
    ends = timeline[0]["samples"], timeline[-1]["samples"]

    def rows(term: Term) -> list[dict[str, Any]]:
        found = [
            {"series": pooled, "x": row["samples"], "mean": row["pooled"].get(term.name)}
            for row in timeline
        ]
        for series, scores in levels.items():
            if scores.get(term.name) is not None:
                found += [{"series": series, "x": x, "mean": scores[term.name]} for x in ends]
        return found

    panels = [
        charts.Panel(
            _title(facts, term),
            rows(term),
            _axis(term),
            log_x=False,
            log_y=_is_distance(term.name),
        )
        for term in facts.terms
    ]
    return charts.curves(panels, columns=1, styles=styles)


def scores_chart(facts: Facts) -> Any:
    from genmix import charts

    if facts.mixture is None:
        return None
    is_mixed = len(facts.weights or ()) > 1
    mixture, uniform = (_distinct(name, facts.labels) for name in ("mixture", "equal shares"))
    bars = [(arm, "arm", facts.single_scores[arm]) for arm in leading_arms(facts)]
    bars = [bar for bar in bars if bar[2]]
    if facts.uniform is not None:
        bars.append((uniform, "even", facts.uniform.scores))
    if is_mixed:  # otherwise, it is the same as its only arm
        bars.append((mixture, "mixture", facts.mixture.scores))
    if len(bars) < 2:
        return None
    rows = [
        {"label": label, "kind": kind, "mean": scores.get(term.name), "panel": _title(facts, term)}
        for term in facts.terms
        for label, kind, scores in bars
    ]
    axis = _axis(facts.terms[0]) if len(facts.terms) == 1 else "score"
    return charts.bars(rows, axis, columns=1, compress=True)


def map_chart(facts: Facts) -> Any:
    from genmix import charts

    subset = facts.subset
    if len(subset.rows) < 3:
        return None
    indices = map_indices(facts)
    projection = project(subset.outputs[indices])
    inks = arm_colors(facts, inks=True)
    other = next(reversed(inks))
    rows = [
        {"group": arm if arm in inks else other, "x": float(x), "y": float(y)}
        for arm, (x, y) in zip(subset.arms[indices].tolist(), projection.points, strict=True)
    ]
    first, second = (
        f"component {i} ({100 * share:.0f}% of the variance)"
        for i, share in enumerate(projection.shares, 1)
    )
    return charts.scatter(rows, first, second, inks)


def map_indices(facts: Facts) -> NDArray[np.int64]:
    """Return the samples on the map, as indices into the subset, in the order of the points."""
    return facts.subset.stratified(MAX_POINTS, seed=1)


def cost_chart(facts: Facts) -> Any:
    from genmix import charts
    from genmix.charts.style import BLUE, DOTS, VERMILLION, Style, arm_inks

    frontier = facts.frontier
    if frontier is None or len(frontier.points) < 2:
        return None
    inks = arm_inks(leading_arms(facts))
    labels = [arm for arm in inks if arm in frontier.singles]
    best = _distinct("best mixture for each cost weight", labels)
    ours = _distinct("this run", labels)
    points = [(best, point) for point in frontier.points]
    points += [(arm, frontier.singles[arm]) for arm in labels]
    # The first style is drawn on top, because the run is on the line or near it.
    styles = {}
    if frontier.mixture is not None:
        styles[ours] = Style(VERMILLION)
        points.append((ours, frontier.mixture))
    styles |= {best: Style(BLUE)} | {arm: Style(inks[arm]) for arm in labels}
    rows = [{"series": series, "x": p.cost, "mean": p.score} for series, p in points]
    if (budget := marked_budget(facts)) is not None:
        series = _distinct("budget per sample", labels)
        styles[series] = Style(GRAY, DOTS)
        scores = [p.score for _, p in points if np.isfinite(p.score)]
        rows += [{"series": series, "x": budget, "mean": f(scores)} for f in (min, max)]
    axis = f"{short_name(frontier.name)} {direction(frontier.maximise)}"
    log_y = _is_distance(frontier.name)
    panel = charts.Panel("", rows, axis, x="mean cost per sample", log_y=log_y)
    return charts.sweep([panel], styles=styles, log_x=_is_wide(facts))


def frontier_chart(facts: Facts) -> Any:
    """Draw the best mixture for each mean cost."""
    from genmix import charts

    frontier = facts.frontier
    if frontier is None or len(frontier.points) < 2:
        return None
    named = leading_arms(facts)
    rows = []
    found = [*frontier.points, *([frontier.budget] if frontier.budget else [])]
    for point in sorted(found, key=lambda point: point.cost):
        shares = {arm: point.weights.get(arm, 0.0) for arm in named}
        if len(named) < len(facts.labels):
            shares[_distinct(OTHERS, named)] = max(1.0 - sum(shares.values()), 0.0)
        rows += [{"arm": arm, "x": point.cost, "share": s} for arm, s in shares.items()]
    return charts.shares(
        rows,
        "mean cost per sample",
        "share of the best mixture",
        log_x=_is_wide(facts),
        mark=marked_budget(facts),
        colors=arm_colors(facts),
    )


def marked_budget(facts: Facts) -> float | None:
    """Return the budget per sample if it is among the costs of the best mixtures."""
    limit, points = facts.budget_per_sample, facts.frontier.points if facts.frontier else []
    costs = [point.cost for point in points]
    return limit if limit is not None and costs and min(costs) <= limit <= max(costs) else None


def _is_wide(facts: Facts) -> bool:
    """Return whether the costs of the arms differ so much that a logarithmic axis shows them better."""
    singles = facts.frontier.singles.values() if facts.frontier else ()
    costs = [point.cost for point in singles]
    return bool(costs) and min(costs) > 0 and max(costs) / min(costs) > 30


FIGURES: dict[str, Callable[[Facts], Any]] = {
    "scores": scores_chart,
    "weights": weights_chart,
    "pooled": pooled_chart,
    "map": map_chart,
    "cost": cost_chart,
    "frontier": frontier_chart,
}
"""Each function returns an Altair chart, or None if there is nothing to draw."""

BY_GROUP = "Every group of prompts has its own mixture; see below."
NO_MIXTURE = "There is no mixture to score yet."


def why_missing(facts: Facts, name: str) -> str:
    """Say why a chart cannot be drawn, in a sentence."""
    if name in ("scores", "cost", "frontier") and facts.weights_by_group:
        return BY_GROUP
    if name in ("cost", "frontier"):
        return _why_no_costs(facts)
    if name == "scores" and facts.mixture is not None:
        return "There is only one arm, so there is nothing to compare."
    return {
        "scores": NO_MIXTURE,
        "weights": "The run did not record the weights often enough.",
        "pooled": "The run did not record the scores often enough.",
        "map": "There are too few samples for a map.",
    }[name]


def _why_no_costs(facts: Facts) -> str:
    if facts.scoring is None:
        return NO_MIXTURE
    arms = facts.scoring.usable
    unknown = [arm for arm in arms if arm not in facts.mean_costs]
    if len(unknown) == len(arms):
        return "The costs of the arms are unknown."
    if len(arms) == 1:
        return "The mixture has only one arm."
    if unknown:
        few = len(unknown) <= MAX_COLORS
        return f"The cost of {listed(unknown) if few else counted(len(unknown), 'arm')} is unknown."
    if facts.frontier is None:
        return "All arms of the mixture cost the same."
    return "The cheapest mixture is also the best one."


TITLES = {
    "scores": "Single arms and mixtures",
    "weights": "Weights over time",
    "pooled": "Score of all samples over time",
    "map": "Map of the samples",
    "cost": "Score against cost",
    "frontier": "Best mixture for each cost",
}


def thinned(rows: Sequence[dict[str, Any]], most: int = MAX_ROWS) -> list[dict[str, Any]]:
    """Keep at most this many rows, evenly spaced, including the first and the last."""
    if len(rows) <= most:
        return list(rows)
    step = (len(rows) - 1) / (most - 1)
    return [rows[round(i * step)] for i in range(most)]


def _is_distance(name: str) -> bool:
    """Return whether scores approach 0, so that a logarithmic axis shows their differences."""
    return name.endswith("_distance")


def _axis(term: Term) -> str:
    return f"{short_name(term.name)} {direction(term.maximise)}"


def _title(facts: Facts, term: Term) -> str:
    return "" if len(facts.terms) == 1 else term.label


def _distinct(name: str, labels: Iterable[str]) -> str:
    """Change the name if an arm already has it."""
    taken = set(labels)
    while name in taken:
        name += " *"
    return name
