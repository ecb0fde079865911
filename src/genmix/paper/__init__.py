"""Every figure and table of the paper, and some beyond it, each as an item that can be made again."""

from __future__ import annotations

from importlib import import_module

from genmix.paper.item import Item, Made, Setting

__all__ = ["ITEMS", "Item", "Made", "Setting"]

FAMILIES = ("curves", "bars", "ablations", "fidelity", "solver", "tables", "beyond")
"""Modules with items."""

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
"""As in the paper; what goes beyond it comes after."""


def _found() -> dict[str, Item]:
    items = [item for family in FAMILIES for item in import_module(f"genmix.paper.{family}").ITEMS]
    places = {name: place for place, name in enumerate(ORDER)}
    items.sort(key=lambda item: places.get(item.name, len(ORDER)))
    return {item.name: item for item in items}


ITEMS = _found()
"""Every item by its name, in the paper's order."""
