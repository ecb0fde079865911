"""The paper's figures that plot scores over rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import genmix as gx
from genmix.comparison.comparison import Comparison
from genmix.comparison.presentation import is_distance, score_axis
from genmix.comparison.variant import Variant
from genmix.paper.comparisons import (
    GREEDY,
    MIXTURE_ORACLE,
    ONE_ARM,
    ORACLES,
    UCB,
    compare_policies,
    objectives_for,
    size_for,
)
from genmix.paper.feature_files import load_datasets
from genmix.paper.items import Item, ItemOutput, Settings
from genmix.paper.markdown import outcome_table, tests_table
from genmix.paper.published import choices

DATASETS = ("ffhq", "lsun-bedroom", "imagenet", "dogs", "birds", "city")
DELTAS = (0.1, 0.3, 0.6, 1.0)
"""Values of δ_L; at 0, Mixture-UCB is Mixture-Greedy."""


def curves_figure(comparisons: Mapping[str, Comparison], columns: int = 2) -> ItemOutput:
    """Draw pooled scores over rounds, one panel per titled comparison, with outcomes and tests."""
    from genmix import charts

    panels, rows, parts = [], [], []
    for title, found in comparisons.items():
        axis, log_y = score_axis(found), is_distance(found)
        panels.append(charts.Panel(title, found.band_rows(), axis, log_y=log_y))
        rows += [{"panel": title} | row for row in found.curve_table()]
        parts += [f"### {title}", "", outcome_table(found), tests_table(found)]
    chart = charts.curves(panels, columns)
    return ItemOutput({"curves": rows}, {"curves": chart}, "\n".join(parts))


def _figure(
    datasets: Sequence[str],
    objectives: Sequence[str],
    policies: Mapping[str, Variant],
    columns: int = 2,
) -> Callable[[Settings], ItemOutput]:
    """Return a function that compares the policies on every objective and dataset."""

    def make(settings: Settings) -> ItemOutput:
        found = {}
        for data in load_datasets(settings, datasets):
            available = objectives_for(data.world, data.bandwidth)
            for name in objectives:
                if name in available:
                    size = size_for(settings, data.world)
                    found[f"{name}, {data.title}"] = compare_policies(
                        settings, data.world, available[name], policies, size
                    )
        return curves_figure(found, columns)

    return make


def _delta_variants() -> dict[str, Variant]:
    variants = {f"Mixture-UCB δ={delta:g}": Variant(gx.MixtureUCB(delta=delta)) for delta in DELTAS}
    return GREEDY | variants | MIXTURE_ORACLE


VENDI = GREEDY | ONE_ARM | MIXTURE_ORACLE
IMAGES = "ffhq, lsun-bedroom, imagenet (the features of each model and of the real data)"
ALL = (
    "fashion for FFHQ, LSUN-Bedroom and ImageNet, breeds for dogs, boots for birds, city (the paper "
    "does not have the last three)"
)

ITEMS = (
    Item(
        "fig-rke-kid",
        "RKE and KID over rounds: Mixture-Greedy, Mixture-UCB, oracles",
        "imagenet (the features of each model and of the real data)",
        "fashion",
        choices("imagenet", "kid", "sigma", "labels", "growth"),
        _figure(("imagenet",), ("RKE", "KD"), GREEDY | UCB | ORACLES),
    ),
    Item(
        "fig-fd",
        "Fréchet distance over rounds, compared with the oracles",
        IMAGES,
        ALL,
        choices("imagenet", "growth"),
        _figure(DATASETS, ("FD",), GREEDY | UCB | ORACLES),
    ),
    Item(
        "fig-delta",
        "The effect of the UCB coefficient δ_L on KD and RKE",
        IMAGES,
        ALL,
        choices("kid", "sigma", "growth"),
        _figure(DATASETS, ("KD", "RKE"), _delta_variants()),
    ),
    Item(
        "fig-dogs",
        "Vendi over rounds, one generator with five prompts",
        "dogs (the features of each breed)",
        "breeds",
        choices("convex", "kernel", "growth"),
        _figure(("dogs",), ("Vendi",), VENDI, 1),
    ),
    Item(
        "fig-birds",
        "Vendi over rounds, three generators with one prompt",
        "birds (the features of each model)",
        "boots",
        choices("birds", "kernel", "growth"),
        _figure(("birds",), ("Vendi",), VENDI, 1),
    ),
    Item(
        "fig-city",
        "Vendi over rounds, language models writing about a vibrant city in the U.S.",
        "city (the features of the texts of each model)",
        "city",
        choices("qwen", "kernel", "growth"),
        _figure(("city",), ("Vendi",), VENDI, 1),
    ),
)
