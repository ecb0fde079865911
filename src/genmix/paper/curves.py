"""The paper's figures of scores over rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import genmix as gx
from genmix.comparison.comparison import Comparison
from genmix.comparison.figures import axis, is_distance
from genmix.comparison.variants import Variant
from genmix.paper.features import Source, sources
from genmix.paper.item import Item, Made, Setting
from genmix.paper.playing import (
    GREEDY,
    ONE_ARM,
    ORACLES,
    UCB,
    objectives,
    play,
    size,
)
from genmix.paper.published import choices
from genmix.paper.tell import outcome_table, tests_table

Objectives = Callable[[Source], dict[str, gx.Objective]]


@dataclass(frozen=True)
class Panel:
    """One comparison as a panel of a figure."""

    title: str
    found: Comparison


def compare_all(
    setting: Setting, datasets: Sequence[str], make: Objectives, policies: Mapping[str, Variant]
) -> list[Panel]:
    """Every objective on every dataset."""
    panels = []
    for source in sources(setting, datasets):
        for name, objective in make(source).items():
            found = play(setting, source.world, objective, policies, size(setting, source.world))
            panels.append(Panel(f"{name}, {source.title}", found))
    return panels


def figure(panels: Sequence[Panel], columns: int = 2) -> Made:
    """Pooled scores over rounds with what they come down to."""
    from genmix import charts

    drawn = [
        charts.Panel(
            panel.title,
            panel.found.band_rows(),
            axis(panel.found),
            log_y=is_distance(panel.found),
        )
        for panel in panels
    ]
    rows = [{"panel": panel.title} | row for panel in panels for row in panel.found.curve_table()]
    parts = []
    for panel in panels:
        parts += [f"### {panel.title}", "", outcome_table(panel.found), tests_table(panel.found)]
    return Made({"curves": rows}, {"curves": charts.curves(drawn, columns)}, "\n".join(parts))


def only(*names: str) -> Objectives:
    """These of the four objectives, with the bandwidth that fits the data."""

    def make(source: Source) -> dict[str, gx.Objective]:
        found = objectives(source.world, source.bandwidth)
        return {name: found[name] for name in names if name in found}

    return make


def rke_kid(setting: Setting) -> Made:
    policies = GREEDY | UCB | ORACLES
    return figure(compare_all(setting, ("imagenet",), only("RKE", "KD"), policies))


def fd(setting: Setting) -> Made:
    datasets = ("ffhq", "lsun-bedroom", "imagenet", "dogs", "birds", "city")
    return figure(compare_all(setting, datasets, only("FD"), GREEDY | UCB | ORACLES), 2)


DELTAS = (0.0, 0.1, 0.3, 0.6, 1.0)


def delta(setting: Setting) -> Made:
    """UCB at several δ_L; at 0 it is Mixture-Greedy."""
    policies: dict[str, Variant] = dict(GREEDY)
    for value in DELTAS[1:]:
        policies[f"Mixture-UCB δ={value:g}"] = Variant(gx.MixtureUCB(delta=value))
    policies |= {"Mixture oracle": ORACLES["Mixture oracle"]}
    datasets = ("ffhq", "lsun-bedroom", "imagenet", "dogs", "birds", "city")
    return figure(compare_all(setting, datasets, only("KD", "RKE"), policies))


def vendi(dataset: str) -> Callable[[Setting], Made]:
    def make(setting: Setting) -> Made:
        policies = GREEDY | ONE_ARM | {"Mixture oracle": ORACLES["Mixture oracle"]}
        return figure(compare_all(setting, (dataset,), only("Vendi"), policies), 1)

    return make


def _item(name: str, title: str, needs: str, stands_in: str, make: Any, *topics: str) -> Item:
    return Item(name, title, needs, stands_in, choices(*topics), make)


IMAGES = "ffhq, lsun-bedroom, imagenet: each model's features and the real data's"
ALL = "fashion for FFHQ, LSUN-Bedroom and ImageNet, breeds for dogs, boots for birds, city"

ITEMS = (
    _item(
        "fig-rke-kid",
        "RKE and KID over rounds: Mixture-Greedy, Mixture-UCB, oracles",
        "imagenet: each model's features and the real data's",
        "fashion",
        rke_kid,
        "imagenet",
        "kid",
        "sigma",
        "labels",
        "growth",
    ),
    _item(
        "fig-fd",
        "Fréchet distance over rounds, against the oracles",
        IMAGES,
        f"{ALL} (the last three beyond the paper)",
        fd,
        "imagenet",
        "growth",
    ),
    _item(
        "fig-delta",
        "The effect of the UCB coefficient δ_L on KD and RKE",
        IMAGES,
        f"{ALL} (the last three beyond the paper)",
        delta,
        "kid",
        "sigma",
        "growth",
    ),
    _item(
        "fig-dogs",
        "Vendi over rounds, one generator under five prompts",
        "dogs: the features of each breed's samples",
        "breeds",
        vendi("dogs"),
        "convex",
        "kernel",
        "growth",
    ),
    _item(
        "fig-birds",
        "Vendi over rounds, three generators under one prompt",
        "birds: each model's features",
        "boots",
        vendi("birds"),
        "birds",
        "kernel",
        "growth",
    ),
    _item(
        "fig-city",
        "Vendi over rounds, language models on a vibrant city in the U.S.",
        "city: the features of each model's texts",
        "city",
        vendi("city"),
        "qwen",
        "kernel",
        "growth",
    ),
)
