"""The corollaries: a diversity objective plus a fidelity term, for several values of its weight w."""

from __future__ import annotations

from typing import Any

import genmix as gx
from genmix.comparison.comparison import Comparison
from genmix.comparison.statistics import mean_interval
from genmix.comparison.worlds import World
from genmix.paper.comparisons import (
    GREEDY,
    MIXTURE_ORACLE,
    UCB,
    compare_policies,
    objectives_for,
    size_for,
    some_rows,
)
from genmix.paper.feature_files import load_datasets
from genmix.paper.items import Item, ItemOutput, Rows, Settings
from genmix.paper.markdown import plus_minus, table
from genmix.paper.published import choices

WEIGHTS = (0.0, 0.5, 1.0, 2.0, 4.0)
QUICK_WEIGHTS = (0.0, 1.0, 4.0)
ROUNDS = 300
UNITS = {"Vendi": 1.0, "FD": 10.0, "RKE": 0.02}
"""The unit of w for each objective, so that the term matters regardless of the scale of the loss."""


def fidelity(settings: Settings) -> ItemOutput:
    """Measure both terms at several values of w, for Vendi, FD and RKE with precision or density."""
    from genmix import charts

    rows: Rows = []
    panels = []
    (data,) = load_datasets(settings, ("ffhq",))
    objectives = objectives_for(data.world, data.bandwidth)
    for base in UNITS:
        for term in ("Precision", "Density"):
            swept = _sweep(settings, data.world, objectives[base], base, term)
            rows += swept
            panels += _panels(charts, swept, base, term)
    headings = ["objective", "w", "policy", "diversity or distance", "fidelity", "combined loss ↓"]
    lines = [
        [
            f"{row['base']} + w {row['term'].lower()}",
            f"{row['w']:g}",
            *(row[f"{key}_text"] for key in ("policy", "base", "term", "loss")),
        ]
        for row in rows
    ]
    text = (
        "The loss is L(α) − w θ·α, where θ is the precision or density of the samples relative to "
        "the real data (k = 5). Scores are for all samples at T, as mean ± half the width of the 95% "
        "interval.\n\n"
    )
    return ItemOutput(
        {"sweep": rows}, {"sweep": charts.sweep(panels)}, text + table(headings, lines)
    )


def _sweep(settings: Settings, world: World, base: gx.Objective, name: str, term: str) -> Rows:
    added: Any = getattr(gx, term)(some_rows(world.need_reference(), 2000))
    size = size_for(settings, world, repeats=10, most=ROUNDS)
    rows = []
    for w in QUICK_WEIGHTS if settings.quick else WEIGHTS:
        objective = base + w * UNITS[name] * added
        policies = GREEDY | UCB | MIXTURE_ORACLE
        found = compare_policies(settings, world, objective, policies, size)
        rows += [_row(found, policy, name, term, w) for policy in found.policies]
    return rows


def _row(found: Comparison, policy: str, base: str, term: str, w: float) -> dict[str, Any]:
    names = [each.name for _, each in found.objective.terms]  # type: ignore[attr-defined]
    row: dict[str, Any] = {"base": base, "term": term, "w": w * UNITS[base], "policy": policy}
    row["policy_text"] = found.named(policy)
    for key, name in zip(("base", "term", "loss"), (*names, "loss"), strict=True):
        interval = mean_interval(found.pooled(policy, name)[:, -1])
        row |= {
            f"{key}_mean": interval.mean,
            f"{key}_low": interval.low,
            f"{key}_high": interval.high,
            f"{key}_text": plus_minus(interval),
        }
    return row


def _panels(charts: Any, rows: Rows, base: str, term: str) -> list[Any]:
    arrow = "↓ (lower is better)" if base == "FD" else "↑ (higher is better)"
    made = []
    for key, y in (("base", f"{base} {arrow}"), ("term", f"{term.lower()} ↑ (higher is better)")):
        drawn = [
            {
                "series": row["policy"],
                "x": row["w"],
                "mean": row[f"{key}_mean"],
                "low": row[f"{key}_low"],
                "high": row[f"{key}_high"],
            }
            for row in rows
        ]
        made.append(charts.Panel(f"{base} + w {term.lower()}", drawn, y, x="weight w", log_x=False))
    return made


ITEMS = (
    Item(
        "fidelity",
        "The corollaries: Vendi, FD and RKE with precision or density, over the weight w",
        "ffhq (the features of each model and of the real data)",
        "fashion",
        f"{choices('sign', 'kernel', 'growth')} The paper shows no figure for the corollaries "
        "and does not print w; we sweep over w.",
        fidelity,
    ),
)
