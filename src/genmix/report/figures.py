"""The charts of a run by name: each is in the report, and ``genmix plot`` writes it to a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from genmix.charts.names import better, short_name
from genmix.report.facts import Arm, Facts, Term, Values
from genmix.report.embedding_map import MOST_POINTS, project

MOST_ARMS = 12
"""Arms with a colour of their own; the others are drawn as one."""

MOST_LOOKS = 300
"""Rows of the timeline that are drawn."""

OTHERS = "other arms"
GREY = "#8C8C8C"


def figure(facts: Facts, name: str) -> Any:
    """The Altair chart with this name; None where the run has nothing to draw in it."""
    return FIGURES[name](facts)


def leading(facts: Facts, most: int = MOST_ARMS) -> list[Arm]:
    """The arms that get a colour: all, or those with the most weight and samples; in their own order."""
    ranked = sorted(facts.arms, key=lambda arm: (-(arm.weight or 0.0), -arm.count))
    kept = {arm.label for arm in ranked[:most]}
    return [arm for arm in facts.arms if arm.label in kept]


def colours(facts: Facts, inks: bool = False) -> dict[str, str]:
    """A colour for each leading arm, and one for all others together, which is the last."""
    from genmix.charts.style import arm_colours, arm_inks

    labels = [arm.label for arm in leading(facts)]
    if len(labels) < len(facts.arms):
        labels.append(_apart(OTHERS, labels))
    return arm_inks(labels) if inks else arm_colours(labels)


def weights_chart(facts: Facts) -> Any:
    from genmix import charts

    looks = thinned([row for row in facts.timeline if row["samples"] > 0])
    if len(looks) < 2:
        return None
    named = [arm.label for arm in leading(facts)]
    rows = []
    for look in looks:
        shares = {arm: look["weights"].get(arm, 0.0) for arm in named}
        if len(named) < len(facts.arms):
            shares[_apart(OTHERS, named)] = max(1.0 - sum(shares.values()), 0.0)
        rows += [{"arm": arm, "x": look["samples"], "share": s} for arm, s in shares.items()]
    return charts.shares(rows)


def pooled_chart(facts: Facts) -> Any:
    from genmix import charts
    from genmix.charts.style import BLUE, DASH_DOT, DOTS, Style, arm_inks

    looks = thinned([row for row in facts.timeline if row["pooled"]])
    if len(looks) < 2 or not facts.terms:
        return None
    arms = leading(facts)
    labels = [arm.label for arm in arms]
    everything, evenly = _apart("all samples so far", labels), _apart("even mixture", labels)
    inks = arm_inks(labels)
    styles = {everything: Style(BLUE)}
    styles |= {arm: Style(inks[arm], DASH_DOT) for arm in labels}
    if facts.even is not None:
        styles[evenly] = Style(GREY, DOTS)
    ends = looks[0]["samples"], looks[-1]["samples"]

    def rows(term: Term) -> list[dict[str, Any]]:
        found = [
            {"series": everything, "x": look["samples"], "mean": look["pooled"].get(term.name)}
            for look in looks
        ]
        level: list[tuple[str, Values]] = [(arm.label, arm.single) for arm in arms]
        if facts.even is not None:
            level.append((evenly, facts.even.scores))
        for series, scores in level:
            if scores.get(term.name) is not None:
                found += [{"series": series, "x": x, "mean": scores[term.name]} for x in ends]
        return found

    panels = [
        charts.Panel(_title(facts, term), rows(term), _axis(term), log_y=_is_distance(term.name))
        for term in facts.terms
    ]
    return charts.curves(panels, columns=1, looks=styles)


def scores_chart(facts: Facts) -> Any:
    from genmix import charts

    if facts.mixture is None:
        return None
    labels = [arm.label for arm in facts.arms]
    mixture, evenly = _apart("mixture", labels), _apart("even mixture", labels)
    rows = []
    for term in facts.terms:
        bars: list[tuple[str, str, Values]] = [
            (arm.label, "arm", arm.single) for arm in leading(facts) if arm.single
        ]
        if facts.even is not None:
            bars.append((evenly, "even", facts.even.scores))
        bars.append((mixture, "mixture", facts.mixture.scores))
        rows += [
            {
                "label": label,
                "kind": kind,
                "mean": scores.get(term.name),
                "panel": _title(facts, term),
            }
            for label, kind, scores in bars
        ]
    only = facts.terms[0]
    return charts.bars(rows, _axis(only) if len(facts.terms) == 1 else "score", columns=1)


def map_chart(facts: Facts) -> Any:
    from genmix import charts

    chosen = facts.chosen
    if len(chosen.rows) < 3:
        return None
    places = map_places(facts)
    drawn = project(chosen.embeddings[places])
    inks = colours(facts, inks=True)
    other = next(reversed(inks))
    rows = [
        {"group": arm if arm in inks else other, "x": float(x), "y": float(y)}
        for arm, (x, y) in zip(chosen.arms[places].tolist(), drawn.points, strict=True)
    ]
    first, second = (
        f"component {i + 1} ({100 * share:.0f} % of the variance)"
        for i, share in enumerate(drawn.shares)
    )
    return charts.scatter(rows, first, second, inks)


def map_places(facts: Facts) -> Any:
    """Which of the chosen samples the map shows, in the order of its points."""
    return facts.chosen.part(MOST_POINTS, seed=1)


def cost_chart(facts: Facts) -> Any:
    from genmix import charts
    from genmix.charts.style import BLUE, VERMILLION, Style, arm_inks

    edge = facts.frontier
    if edge is None or len(edge.points) < 2:
        return None
    labels = [arm.label for arm in leading(facts) if arm.label in edge.singles]
    best, mine = _apart("best mixture at each weight of cost", labels), _apart("this run", labels)
    inks = arm_inks(arm.label for arm in leading(facts))
    # What comes first is drawn on top: the run itself lies on the line, or near it.
    styles = {} if edge.mixture is None else {mine: Style(VERMILLION)}
    styles |= {best: Style(BLUE)} | {arm: Style(inks[arm]) for arm in labels}
    rows: list[dict[str, Any]] = [
        {"series": best, "x": p.cost, "mean": p.score} for p in edge.points
    ]
    rows += [
        {"series": arm, "x": edge.singles[arm].cost, "mean": edge.singles[arm].score}
        for arm in labels
    ]
    if edge.mixture is not None:
        rows.append({"series": mine, "x": edge.mixture.cost, "mean": edge.mixture.score})
    axis = f"{short_name(edge.name)} {better(edge.maximise)}"
    panel = charts.Panel("", rows, axis, x="mean cost of a sample", log_y=_is_distance(edge.name))
    least, most = (f(row["x"] for row in rows) for f in (min, max))
    return charts.sweep([panel], looks=styles, log_x=least > 0 and most / least > 30)


FIGURES: dict[str, Callable[[Facts], Any]] = {
    "scores": scores_chart,
    "weights": weights_chart,
    "pooled": pooled_chart,
    "map": map_chart,
    "cost": cost_chart,
}

TITLES = {
    "scores": "Each arm alone, and together",
    "weights": "Weights over time",
    "pooled": "Score of all samples over time",
    "map": "Map of the samples",
    "cost": "Cost against score",
}


def thinned(looks: Sequence[dict[str, Any]], most: int = MOST_LOOKS) -> list[dict[str, Any]]:
    """The first, the last, and others evenly between."""
    if len(looks) <= most:
        return list(looks)
    step = (len(looks) - 1) / (most - 1)
    return [looks[round(i * step)] for i in range(most)]


def _is_distance(name: str) -> bool:
    """Whether scores fall towards 0, so that a logarithmic axis shows what differs."""
    return name.endswith("_distance")


def _axis(term: Term) -> str:
    return f"{short_name(term.name)} {better(term.maximise)}"


def _title(facts: Facts, term: Term) -> str:
    return (
        "" if len(facts.terms) == 1 else f"{short_name(term.name)} {'↑' if term.maximise else '↓'}"
    )


def _apart(name: str, labels: Iterable[str]) -> str:
    """The name, or another if an arm is called so."""
    taken = set(labels)
    while name in taken:
        name += " *"
    return name
