"""The corollaries: a diversity objective with a fidelity term, over its weight w."""

from __future__ import annotations

from typing import Any

import genmix as gx
from genmix.comparison.comparison import Comparison
from genmix.comparison.statistics import mean_interval
from genmix.comparison.worlds import World
from genmix.paper.features import sources
from genmix.paper.item import Item, Made, Setting
from genmix.paper.playing import GREEDY, ORACLES, UCB, objectives, play, size, some_rows
from genmix.paper.published import choices
from genmix.paper.tell import plus_minus
from genmix.paper.text import table

WEIGHTS = (0.0, 0.5, 1.0, 2.0, 4.0)
QUICK_WEIGHTS = (0.0, 1.0, 4.0)
ROUNDS = 300
UNITS = {"Vendi": 1.0, "RKE": 0.02, "FD": 10.0}
"""What w is counted in: losses differ in size, and a term should be felt in each."""


def fidelity(setting: Setting) -> Made:
    """Scores of both terms over w, for Vendi, FD and RKE with precision or density."""
    from genmix import charts

    rows: list[dict[str, Any]] = []
    lines: list[list[str]] = []
    panels = []
    for source in sources(setting, ("ffhq",)):
        bases = objectives(source.world, source.bandwidth)
        for base in ("Vendi", "FD", "RKE"):
            for term in ("Precision", "Density"):
                swept = _sweep(setting, source.world, bases[base], base, term)
                rows += swept
                panels += _panels(charts, swept, base, term)
                lines += [_line(row, base, term) for row in swept]
    heads = ["objective", "w", "policy", "diversity or distance", "fidelity", "combined loss ↓"]
    text = (
        "The loss is L(α) − w θ·α, with precision or density of the samples against real ones (k = 5). "
        "Means ± half of the 95 % interval, of all samples at T.\n\n"
    )
    return Made({"sweep": rows}, {"sweep": charts.sweep(panels)}, text + table(heads, lines))


def _sweep(
    setting: Setting, world: World, base: gx.Objective, name: str, term: str
) -> list[dict[str, Any]]:
    reference = world.need_reference()
    rows = []
    for w in QUICK_WEIGHTS if setting.quick else WEIGHTS:
        added: Any = getattr(gx, term)(some_rows(reference, 2000))
        objective = base + w * UNITS[name] * added
        spent = size(setting, world, repeats=10, most=ROUNDS)
        policies = GREEDY | UCB | {"Mixture oracle": ORACLES["Mixture oracle"]}
        found = play(setting, world, objective, policies, spent)
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
        }
        row[f"{key}_text"] = plus_minus(interval)
    return row


def _panels(charts: Any, rows: list[dict[str, Any]], base: str, term: str) -> list[Any]:
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


def _line(row: dict[str, Any], base: str, term: str) -> list[str]:
    return [
        f"{base} + w {term.lower()}",
        f"{row['w']:g}",
        row["policy_text"],
        row["base_text"],
        row["term_text"],
        row["loss_text"],
    ]


ITEMS = (
    Item(
        "fidelity",
        "The corollaries: Vendi, FD and RKE with precision or density, over the weight w",
        "ffhq: each model's features and the real data's",
        "fashion",
        f"{choices('sign', 'kernel', 'growth')} The paper prints no figure for the corollaries and "
        "no w: a sweep is taken.",
        fidelity,
    ),
)
