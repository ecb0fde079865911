"""The figures and tables of the paper, and some additional ones, as reproducible items."""

from __future__ import annotations

from importlib import import_module

from genmix.paper.items import Item, ItemOutput, Settings

__all__ = ["ITEMS", "Item", "ItemOutput", "Settings"]

FAMILIES = (
    "score_curves",
    "distance_bars",
    "ablations",
    "fidelity",
    "solver_ablation",
    "innovation_table",
    "interiority_table",
    "beyond_paper",
    "keep_table",
    "prompt_table",
    "downstream",
)
"""The modules that define items."""

ORDER = (
    "fig-rke-kid",
    "fig-fd",
    "fig-fd-bars",
    "fig-delta",
    "fig-dogs",
    "fig-birds",
    "fig-city",
    "ablation-rff",
    "ablation-bandwidth",
    "ablation-encoder",
    "fidelity",
    "ablation-solver",
    "table-innovation",
    "table-interiority",
)
"""The order of the items in the paper; additional items come last."""


def _collect() -> dict[str, Item]:
    items = [item for family in FAMILIES for item in import_module(f"genmix.paper.{family}").ITEMS]
    places = {name: place for place, name in enumerate(ORDER)}
    items.sort(key=lambda item: places.get(item.name, len(ORDER)))
    return {item.name: item for item in items}


ITEMS = _collect()
"""Every item by name."""
