"""Beyond the paper: what the defaults should be, measured with the same tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import genmix as gx
from genmix.comparison.comparison import Comparison
from genmix.comparison.statistics import mean_interval
from genmix.comparison.variants import Variant
from genmix.comparison.worlds import World
from genmix.paper.against import Duel, counted, duel, duel_chart, duel_table
from genmix.paper.item import Item, Made, Setting
from genmix.paper.playing import (
    GREEDY,
    ORACLES,
    UCB,
    Size,
    all_worlds,
    objectives,
    play,
    recorded,
    size,
)
from genmix.paper.published import choices
from genmix.paper.tell import outcome_table, plus_minus
from genmix.paper.text import table

SEEDS = 50
ROUNDS = 300
DIMENSIONS = 64
EARLY = 100


def greedy_ucb(setting: Setting) -> Made:
    """Mixture-Greedy against Mixture-UCB at δ_L = 0.6 and the oracles, everything on every world."""
    duels, parts = [], []
    for world in recorded(setting):
        for name, objective in objectives(world).items():
            policies = GREEDY | UCB | ORACLES
            found = play(setting, world, objective, policies, size(setting, world))
            duels.append(duel(found, name, "Mixture-Greedy", "Mixture-UCB"))
            duels.append(duel(found, name, "Mixture oracle", "One-arm oracle"))
            duels.append(duel(found, name, "Mixture-Greedy", "Mixture oracle"))
            parts += [f"### {name}, {world.name}", "", outcome_table(found)]
    ours = [each for each in duels if each.other == "Mixture-UCB"]
    text = f"Mixture-Greedy against Mixture-UCB. {counted(ours)}\n\n{duel_table(duels)}\n"
    rows = [each.row() for each in duels]
    return Made({"duels": rows}, {"duels": duel_chart(duels)}, text + "\n".join(parts))


# -- one option at a time ----------------------------------------------------------------------------


def reduced(world: World, dimensions: int = DIMENSIONS) -> World:
    """The world along the directions in which its samples spread most, about the origin."""
    if world.dimension <= dimensions:
        return world
    pools = list(world.arms.values())
    moment = sum(pool.T @ pool / len(pool) for pool in pools)
    basis = np.linalg.eigh(moment)[1][:, : -dimensions - 1 : -1]
    reference = None if world.reference is None else world.reference @ basis
    return replace(
        world,
        arms={name: pool @ basis for name, pool in world.arms.items()},
        reference=reference,
        encoder=f"{world.encoder}, {dimensions} leading directions",
    )


def small(setting: Setting, rounds: int = ROUNDS) -> Size:
    return Size(150, 6) if setting.quick else Size(rounds, SEEDS)


Objectives = Callable[[World], Mapping[str, gx.Objective]]
Variants = Callable[[gx.Objective], Mapping[str, Variant]]


def against(
    setting: Setting,
    make: Objectives,
    variants: Variants,
    pairs: Sequence[tuple[str, str]],
    rounds: int = ROUNDS,
) -> tuple[list[Duel], list[Comparison]]:
    """Pairs of variants on every world, early and at the end."""
    duels, all_found = [], []
    for world in map(reduced, all_worlds(setting)):
        for name, objective in make(world).items():
            spent = small(setting, rounds)
            found = play(setting, world, objective, variants(objective), spent)
            all_found.append(found)
            for one, other in pairs:
                if not setting.quick:
                    duels.append(duel(found, name, one, other, EARLY))
                duels.append(duel(found, name, one, other))
    return duels, all_found


def _made(duels: Sequence[Duel], found: Sequence[Comparison], more: str = "") -> Made:
    last = {each.plan.world.name: int(each.times[-1]) for each in found}
    parts = []
    for one, other in dict.fromkeys((each.policy, each.other) for each in duels):
        ours = [each for each in duels if (each.policy, each.other) == (one, other)]
        for when in dict.fromkeys(_when(each, last) for each in ours):
            some = [each for each in ours if _when(each, last) == when]
            parts.append(f"{one} against {other}, {when}: {counted(some)}\n")
    rows = [each.row() for each in duels]
    final = [each for each in duels if each.t == last[each.world]]
    text = "\n".join(parts) + "\n" + more + "\n" + duel_table(duels) + "\n" + _locked(found)
    return Made({"duels": rows}, {"duels": duel_chart(final)}, text)


def _when(each: Duel, last: Mapping[str, int]) -> str:
    return "at the end" if each.t == last[each.world] else f"{each.t} samples"


def _locked(found: Sequence[Comparison]) -> str:
    """How often arms of the optimum were locked out, over all comparisons."""
    shares: dict[str, list[float]] = {}
    for comparison in found:
        for policy, outcome in comparison.outcomes.items():
            if outcome.locked_out is not None:
                shares.setdefault(policy, []).append(outcome.locked_out)
    rows = [[policy, f"{np.mean(each):.1%}"] for policy, each in shares.items()]
    return table(["", "runs with an arm of the optimum locked out"], rows)


def draw(setting: Setting) -> Made:
    def variants(objective: gx.Objective) -> dict[str, Variant]:
        return {"tracking": Variant(draw="tracking"), "iid": Variant(draw="iid")}

    return _made(*against(setting, objectives, variants, [("tracking", "iid")]))


def unbiased(setting: Setting) -> Made:
    def quadratic(world: World) -> dict[str, gx.Objective]:
        found = objectives(world)
        return {name: found[name] for name in ("KD", "RKE") if name in found}

    def variants(objective: Any) -> dict[str, Variant]:
        plain = {"reference": objective.reference} if objective.name == "kernel_distance" else {}
        other = type(objective)(kernel=objective.kernel, unbiased=True, **plain)
        return {"unbiased": Variant(objective=other), "biased": Variant()} | {
            "Mixture oracle": ORACLES["Mixture oracle"]
        }

    return _made(*against(setting, quadratic, variants, [("unbiased", "biased")]))


def growth(setting: Setting) -> Made:
    def variants(objective: gx.Objective) -> dict[str, Variant]:
        return {
            "re-solved at 1 % growth": Variant(resolve_growth=0.01),
            "re-solved every round": Variant(resolve_growth=0.0),
        }

    pair = ("re-solved at 1 % growth", "re-solved every round")
    return _made(*against(setting, objectives, variants, [pair]))


WARM = (2, 5, 10, 20)


def warm(setting: Setting) -> Made:
    def variants(objective: gx.Objective) -> dict[str, Variant]:
        return {f"warm start {m}": Variant(warm_start=m) for m in WARM}

    pairs = [(f"warm start {m}", "warm start 5") for m in WARM if m != 5]
    return _made(*against(setting, objectives, variants, pairs))


TRACKED = {
    "bonus, tracking": Variant(gx.MixtureBonus(0.3), draw="tracking"),
    "tracking": Variant(draw="tracking"),
}


def bonus(setting: Setting) -> Made:
    """A bonus the size of the small-sample bias, with tracking, against both ways without it."""

    def variants(objective: gx.Objective) -> dict[str, Variant]:
        return TRACKED | {"iid": Variant(draw="iid"), "Mixture oracle": ORACLES["Mixture oracle"]}

    pairs = [("bonus, tracking", "iid"), ("bonus, tracking", "tracking"), ("Mixture oracle", "iid")]
    return _made(*against(setting, objectives, variants, pairs))


def long(setting: Setting) -> Made:
    """Tracking, with and without the bonus, over runs as long as the paper's and in all dimensions."""
    policies = TRACKED | GREEDY | {"Mixture oracle": ORACLES["Mixture oracle"]}
    pairs = [
        ("bonus, tracking", "Mixture-Greedy"),
        ("tracking", "Mixture-Greedy"),
        ("Mixture oracle", "bonus, tracking"),
    ]
    duels, all_found = [], []
    for world in recorded(setting):
        for name, objective in objectives(world).items():
            found = play(setting, world, objective, policies, size(setting, world))
            all_found.append(found)
            duels += [duel(found, name, *pair) for pair in pairs]
    return _made(duels, all_found)


# -- cost --------------------------------------------------------------------------------------------

PRICES = (0.0, 0.1, 0.3, 1.0, 3.0)
"""w of the cost term, in units of what the loss can gain for what a sample can cost."""


def cost(setting: Setting) -> Made:
    """Score against cost over the weight of the cost term, on the worlds whose samples have a price."""
    from genmix import charts

    rows: list[dict[str, Any]] = []
    lines = []
    for world in map(reduced, all_worlds(setting)):
        if world.costs is None or len(set(world.costs.values())) == 1:
            continue
        for name, objective in objectives(world).items():
            swept = _priced(setting, world, name, objective)
            rows += swept
            lines += [
                [world.name, name, f"{row['w']:.3g}", row["score_text"], row["cost_text"]]
                for row in swept
            ]
    heads = ["world", "objective", "w", "score at T", "cost of a sample"]
    panels = _frontiers(charts, rows)
    text = (
        "Mixture-Greedy on the objective + w cost: what all samples score, and what one costs.\n\n"
    )
    return Made(
        {"frontier": rows},
        {"frontier": charts.sweep(panels, columns=3)},
        text + table(heads, lines),
    )


def _priced(
    setting: Setting, world: World, name: str, objective: gx.Objective
) -> list[dict[str, Any]]:
    best = gx.optimal_mixture(world.arms, objective)
    assert world.costs is not None
    prices = list(world.costs.values())
    unit = (min(best.single_losses.values()) - best.loss) / (max(prices) - min(prices))
    rows = []
    for part in PRICES:
        w = part * unit
        found = play(setting, world, objective + w * gx.Cost(), GREEDY, small(setting))
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


def _frontiers(charts: Any, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    panels = []
    for world, name in dict.fromkeys((row["world"], row["objective"]) for row in rows):
        ours = [row for row in rows if (row["world"], row["objective"]) == (world, name)]
        arrow = "↑ (higher is better)" if ours[0]["maximise"] else "↓ (lower is better)"
        drawn = [
            {
                "series": "Mixture-Greedy",
                "x": row["cost"],
                "mean": row["score"],
                "low": row["low"],
                "high": row["high"],
            }
            for row in sorted(ours, key=lambda row: row["cost"])
        ]
        title = f"{name}, {world}"
        cost = f"cost ↓ ({ours[0]['unit']})" if ours[0]["unit"] else "cost ↓"
        panels.append(charts.Panel(title, drawn, f"{name} {arrow}", x=cost, log_x=False))
    return panels


ALL_WORLDS = "fashion, breeds, boots, city, modes, gaussians"


def _item(name: str, title: str, make: Any, worlds: str = ALL_WORLDS) -> Item:
    return Item(name, title, "nothing: it is about genmix's defaults", worlds, "", make)


ITEMS = (
    Item(
        "greedy-ucb",
        "Mixture-Greedy against Mixture-UCB and the oracles: FD, KD, RKE, Vendi on every recorded world",
        "nothing: it is about the recorded worlds",
        "fashion, breeds, boots, city",
        choices("kernel", "growth"),
        greedy_ucb,
    ),
    _item("beyond-draw", "Drawing arms by tracking or iid", draw),
    _item("beyond-unbiased", "Learning from unbiased or biased statistics of KD and RKE", unbiased),
    _item("beyond-growth", "Re-solving at 1 % growth or at every round", growth),
    _item("beyond-warm", "The size of the warm start", warm),
    _item("beyond-bonus", "A bonus of the size of the small-sample bias", bonus),
    Item(
        "beyond-long",
        "The bonus and tracking over long runs in all dimensions",
        "nothing: it is about genmix's defaults",
        "fashion, breeds, boots, city",
        "",
        long,
    ),
    _item(
        "beyond-cost",
        "A mixture chosen under cost",
        cost,
        "fashion, boots, city (the worlds whose arms differ in cost)",
    ),
)
