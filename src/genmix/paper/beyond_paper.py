"""Beyond the paper: experiments on what the defaults of genmix should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import genmix as gx
from genmix.charts.axes import direction, short_name
from genmix.comparison.comparison import Comparison
from genmix.comparison.presentation import exploration_text
from genmix.comparison.statistics import mean_interval
from genmix.comparison.variant import Variant
from genmix.comparison.worlds import World
from genmix.paper.comparisons import (
    GREEDY,
    MIXTURE_ORACLE,
    ORACLES,
    UCB,
    PairedGain,
    Size,
    all_worlds,
    compare_policies,
    corrected,
    gain_chart,
    gain_table,
    objectives_for,
    paired_gain,
    recorded_worlds,
    size_for,
    verdict_counts,
)
from genmix.paper.items import Item, ItemOutput, Rows, Settings
from genmix.paper.markdown import outcome_table, plus_minus, table
from genmix.paper.published import choices

REPEATS, ROUNDS = 50, 300
QUICK_REPEATS, QUICK_ROUNDS = 6, 150
DIMENSIONS = 64
EARLY = 100


def greedy_ucb(settings: Settings) -> ItemOutput:
    """Compare Mixture-Greedy with Mixture-UCB at δ_L = 0.6 and the oracles on all objectives and worlds."""
    gains, parts = [], []
    for world in recorded_worlds(settings):
        for name, objective in objectives_for(world).items():
            policies, size = GREEDY | UCB | ORACLES, size_for(settings, world)
            found = compare_policies(settings, world, objective, policies, size)
            gains.append(paired_gain(found, name, "Mixture-Greedy", "Mixture-UCB"))
            gains.append(paired_gain(found, name, "Mixture oracle", "One-arm oracle"))
            gains.append(paired_gain(found, name, "Mixture-Greedy", "Mixture oracle"))
            parts += [f"### {name}, {world.name}", "", outcome_table(found)]
    gains = corrected(gains, [(each.policy, each.other) for each in gains])
    ours = [each for each in gains if each.other == "Mixture-UCB"]
    text = f"Mixture-Greedy against Mixture-UCB. {verdict_counts(ours)}\n\n{gain_table(gains)}\n"
    rows = [each.row() for each in gains]
    return ItemOutput({"duels": rows}, {"duels": gain_chart(gains)}, text + "\n".join(parts))


# -- one option at a time ----------------------------------------------------------------------------

Objectives = Callable[[World], Mapping[str, gx.Objective]]
Variants = Callable[[Any], Mapping[str, Variant]]
Pairs = Sequence[tuple[str, str]]


def reduced(world: World, dimensions: int = DIMENSIONS) -> World:
    """Project the world onto the leading eigenvectors of its second moments."""
    if world.dimension <= dimensions:
        return world
    moment = sum(pool.T @ pool / len(pool) for pool in world.arms.values())
    basis = np.linalg.eigh(moment)[1][:, : -dimensions - 1 : -1]
    return replace(
        world,
        arms={name: pool @ basis for name, pool in world.arms.items()},
        reference=None if world.reference is None else world.reference @ basis,
        encoder=f"{world.encoder}, {dimensions} leading directions",
    )


def option_size(settings: Settings) -> Size:
    return Size(QUICK_ROUNDS, QUICK_REPEATS) if settings.quick else Size(ROUNDS, REPEATS)


def _compare_options(
    variants: Mapping[str, Variant] | Variants,
    pairs: Pairs,
    objectives: Objectives = objectives_for,
) -> Callable[[Settings], ItemOutput]:
    """Compare pairs of variants on every world, early and at the end."""

    def make(settings: Settings) -> ItemOutput:
        gains, comparisons = [], []
        for world in map(reduced, all_worlds(settings)):
            for name, objective in objectives(world).items():
                given = variants(objective) if callable(variants) else variants
                size = option_size(settings)
                found = compare_policies(settings, world, objective, given, size)
                comparisons.append(found)
                for one, other in pairs:
                    if not settings.quick:
                        gains.append(paired_gain(found, name, one, other, EARLY))
                    gains.append(paired_gain(found, name, one, other))
        return _gains_output(gains, comparisons)

    return make


def _gains_output(gains: Sequence[PairedGain], found: Sequence[Comparison]) -> ItemOutput:
    last = {each.plan.world.name: int(each.times[-1]) for each in found}
    pairs = list(dict.fromkeys((each.policy, each.other) for each in gains))
    at_end = [each.t == last[each.world] for each in gains]
    gains = corrected(
        gains, [(g.policy, g.other, end) for g, end in zip(gains, at_end, strict=True)]
    )
    groups: dict[str, list[PairedGain]] = {}
    for each in sorted(gains, key=lambda each: pairs.index((each.policy, each.other))):
        when = "at the end" if each.t == last[each.world] else f"after {each.t} samples"
        groups.setdefault(f"{each.policy} against {each.other}, {when}", []).append(each)
    counts = [f"{title}: {verdict_counts(group)}\n" for title, group in groups.items()]
    final = [each for each in gains if each.t == last[each.world]]
    text = "\n".join([*counts, "", gain_table(gains), "", _locked_out_table(found)])
    return ItemOutput({"duels": [each.row() for each in gains]}, {"duels": gain_chart(final)}, text)


def _locked_out_table(found: Sequence[Comparison]) -> str:
    """Format how often arms of the best mixture were locked out, over all comparisons."""
    shares: dict[str, list[float]] = {}
    for comparison in found:
        for policy, outcome in comparison.outcomes.items():
            if outcome.locked_out is not None:
                shares.setdefault(policy, []).append(outcome.locked_out)
    rows = [[policy, f"{np.mean(each):.1%}"] for policy, each in shares.items()]
    return table(["", "runs with an arm of the best mixture locked out"], rows)


def _quadratic(world: World) -> dict[str, gx.Objective]:
    found = objectives_for(world)
    return {name: found[name] for name in ("KD", "RKE") if name in found}


def _unbiased_variants(objective: Any) -> dict[str, Variant]:
    unbiased = Variant(objective=replace(objective, unbiased=True))
    return {"unbiased": unbiased, "biased": Variant()} | MIXTURE_ORACLE


GROWTH = {
    "re-solved at 1% growth": Variant(resolve_growth=0.01),
    "re-solved every round": Variant(resolve_growth=0.0),
}
WARM = {f"warm start {m}": Variant(warm_start=m) for m in (2, 5, 10, 20)}
IID, TRACKING = {"iid": Variant(draw="iid")}, {"tracking": Variant(draw="tracking")}
BONUS = {"bonus, tracking": Variant(gx.MixtureBonus(0.3), draw="tracking")}
"""A bonus as large as the small-sample bias, with tracking."""


SAFE = {"Mixture-UCB-V": Variant(gx.MixtureUCBV())}
SAFE_REPEATS = {"KD": 200, "RKE": 200, "FD": 20, "Vendi": 20}
"""Repeats of the comparison of the defaults; FD and Vendi take several times as long."""


def safe_default(settings: Settings) -> ItemOutput:
    """Compare the default policy with Mixture-Greedy as published, on every world, early and at the end."""
    gains, comparisons = [], []
    for world in map(reduced, all_worlds(settings)):
        for name, objective in objectives_for(world).items():
            size = Size(ROUNDS, SAFE_REPEATS[name])
            size = option_size(settings) if settings.quick else size
            found = compare_policies(
                settings, world, objective, SAFE | GREEDY, size, warm_start=10, points=20
            )
            comparisons.append(found)
            for t in (EARLY, None) if not settings.quick else (None,):
                gains.append(paired_gain(found, name, "Mixture-UCB-V", "Mixture-Greedy", t))
    output = _gains_output(gains, comparisons)
    return replace(output, text="\n\n".join([output.text, _locked_out_rows(comparisons)]))


def _locked_out_rows(found: Sequence[Comparison]) -> str:
    """Format how often each policy locked out an arm of the best mixture, one row per comparison."""
    rows = []
    for each in found:
        cells = [exploration_text(each.outcomes[policy])[1] for policy in each.policies]
        rows.append([each.plan.world.name, short_name(each.score_name), *cells])
    return table(["world", "objective", *found[0].policies], rows)


def long_runs(settings: Settings) -> ItemOutput:
    """Compare tracking with and without the bonus, in runs as long as the paper's and in all dimensions."""
    policies = BONUS | TRACKING | GREEDY | MIXTURE_ORACLE
    pairs = [
        ("bonus, tracking", "Mixture-Greedy"),
        ("tracking", "Mixture-Greedy"),
        ("Mixture oracle", "bonus, tracking"),
    ]
    gains, comparisons = [], []
    for world in recorded_worlds(settings):
        for name, objective in objectives_for(world).items():
            size = size_for(settings, world)
            found = compare_policies(settings, world, objective, policies, size)
            comparisons.append(found)
            gains += [paired_gain(found, name, *pair) for pair in pairs]
    return _gains_output(gains, comparisons)


# -- cost --------------------------------------------------------------------------------------------

PRICES = (0.0, 0.1, 0.3, 1.0, 3.0)
"""The weight w of the cost term, in units of the largest loss reduction over the largest cost difference."""


def cost(settings: Settings) -> ItemOutput:
    """Measure score and cost for several weights of the cost term, on worlds whose arms differ in cost."""
    from genmix import charts

    rows: Rows = []
    for world in map(reduced, all_worlds(settings)):
        if world.costs is not None and len(set(world.costs.values())) > 1:
            for name, objective in objectives_for(world).items():
                rows += _cost_rows(settings, world, name, objective)
    headings = ["world", "objective", "w", "score at T", "cost per sample"]
    lines = [
        [row["world"], row["objective"], f"{row['w']:.3g}", row["score_text"], row["cost_text"]]
        for row in rows
    ]
    text = (
        "Mixture-Greedy minimizes the loss plus w times the cost. The table shows the score of all samples "
        "and the mean cost per sample.\n\n"
    )
    chart = charts.sweep(_frontiers(charts, rows), columns=3)
    return ItemOutput({"frontier": rows}, {"frontier": chart}, text + table(headings, lines))


def _cost_rows(settings: Settings, world: World, name: str, objective: gx.Objective) -> Rows:
    best = gx.optimal_mixture(world.arms, objective)
    assert world.costs is not None
    prices = list(world.costs.values())
    unit = (min(best.single_losses.values()) - best.loss) / (max(prices) - min(prices))
    rows = []
    for price in PRICES:
        w = price * unit
        combined = objective + w * gx.Cost()
        found = compare_policies(settings, world, combined, GREEDY, option_size(settings))
        score = mean_interval(found.pooled("Mixture-Greedy", objective.name)[:, -1])
        spent = found.outcomes["Mixture-Greedy"].cost
        assert spent is not None
        rows.append(
            {
                "world": world.name,
                "unit": world.cost_unit,
                "objective": name,
                "maximise": objective.maximise,
                "w": w,
                "score": score.mean,
                "low": score.low,
                "high": score.high,
                "cost": spent.mean,
                "score_text": plus_minus(score),
                "cost_text": plus_minus(spent),
            }
        )
    return rows


def _frontiers(charts: Any, rows: Rows) -> list[Any]:
    panels = []
    for world, name in dict.fromkeys((row["world"], row["objective"]) for row in rows):
        mine = [row for row in rows if (row["world"], row["objective"]) == (world, name)]
        drawn = [
            {
                "series": "Mixture-Greedy",
                "x": row["cost"],
                "mean": row["score"],
                "low": row["low"],
                "high": row["high"],
            }
            for row in sorted(mine, key=lambda row: float(row["cost"]))
        ]
        y = f"{name} {direction(mine[0]['maximise'])}"
        x = f"cost ↓ ({mine[0]['unit']})" if mine[0]["unit"] else "cost ↓"
        panels.append(charts.Panel(f"{name}, {world}", drawn, y, x=x, log_x=False))
    return panels


RECORDED_WORLDS = "fashion, breeds, boots, city"
ALL_WORLDS = f"{RECORDED_WORLDS}, modes, gaussians"


def _item(
    name: str, title: str, make: Callable[[Settings], ItemOutput], worlds: str = ALL_WORLDS
) -> Item:
    return Item(name, title, "none; this item tests the defaults of genmix", worlds, "", make)


ITEMS = (
    Item(
        "greedy-ucb",
        "Mixture-Greedy against Mixture-UCB and the oracles: FD, KD, RKE, Vendi on every recorded world",
        "none; this item uses only the recorded worlds",
        RECORDED_WORLDS,
        choices("kernel", "growth"),
        greedy_ucb,
    ),
    _item(
        "beyond-draw",
        "Drawing arms by tracking or at random (iid)",
        _compare_options(TRACKING | IID, [("tracking", "iid")]),
    ),
    _item(
        "beyond-unbiased",
        "Learning from unbiased or biased statistics of KD and RKE",
        _compare_options(_unbiased_variants, [("unbiased", "biased")], _quadratic),
    ),
    _item(
        "beyond-growth",
        "Re-solving at 1% growth or in every round",
        _compare_options(GROWTH, [("re-solved at 1% growth", "re-solved every round")]),
    ),
    _item(
        "beyond-warm",
        "The size of the warm start",
        _compare_options(WARM, [(f"warm start {m}", "warm start 5") for m in (2, 10, 20)]),
    ),
    _item(
        "beyond-bonus",
        "A bonus as large as the small-sample bias",
        _compare_options(
            BONUS | TRACKING | IID | MIXTURE_ORACLE,
            [
                ("bonus, tracking", "iid"),
                ("bonus, tracking", "tracking"),
                ("Mixture oracle", "iid"),
            ],
        ),
    ),
    _item(
        "beyond-default",
        "The default policy against Mixture-Greedy as published",
        safe_default,
    ),
    _item(
        "beyond-long",
        "The bonus and tracking in long runs and in all dimensions",
        long_runs,
        RECORDED_WORLDS,
    ),
    _item(
        "beyond-cost",
        "The trade-off between score and cost",
        cost,
        "fashion, boots, city (the worlds whose arms differ in cost)",
    ),
)
