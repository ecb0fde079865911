"""The figures of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genmix.charts.names import better, short_name
from genmix.comparison.variants import knows_its_shares

if TYPE_CHECKING:
    from genmix.comparison.comparison import Comparison


def axis(found: Comparison, what: str = "") -> str:
    """The score's name with the direction that is better."""
    return f"{short_name(found.score_name)} {what}{better(found.maximise)}".replace("  ", " ")


def comparison_charts(found: Comparison) -> dict[str, Any]:
    """Charts by the name of their file."""
    from genmix import charts

    def panel(title: str, what: str, y: str, **more: Any) -> Any:
        return charts.Panel(title, found.band_rows(what), y, **more)

    pooled = panel("All samples so far", "pooled", axis(found), log_y=is_distance(found))
    made = {"pooled": charts.curves([pooled])}
    if rows := share_rows(found):
        made["shares"] = charts.shares(rows)
    explored = panel("Least drawn arm", "least_share", "min n_i(t)/t")
    if not found.plan.options.population:
        return made | {"exploration": charts.curves([explored])}
    mixture = panel(
        "Population score of the mixture", "mixture", axis(found), log_y=is_distance(found)
    )
    regret = panel("Regret", "regret", "cumulative regret ↓ (log scale)", log_y=True)
    made["overview"] = charts.curves([pooled, mixture, regret, explored])
    return made


def is_distance(found: Comparison) -> bool:
    """Whether scores fall towards 0, so that a logarithmic axis shows what differs."""
    return found.score_name in ("frechet_distance", "kernel_distance")


def share_rows(found: Comparison) -> list[dict[str, Any]]:
    """Mean weights of the arms over time, a panel for each policy that learns."""
    arms = list(found.plan.world.arms)
    rows = []
    for policy, variant in found.plan.variants.items():
        if knows_its_shares(variant):
            continue
        for t, weights in zip(found.times, found.weights(policy).mean(axis=0), strict=True):
            rows += [
                {"panel": policy, "x": int(t), "arm": arm, "share": float(w)}
                for arm, w in zip(arms, weights, strict=True)
            ]
    return rows
