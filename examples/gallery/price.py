"""Trace the frontier between diversity and cost: ``python examples/gallery/price.py``."""

from __future__ import annotations

import json
from pathlib import Path

import altair as alt
import numpy as np

import genmix as gx

ROOT = Path(__file__).parents[2]
WORLD = ROOT / "worlds" / "fashion"
OUT = ROOT / "docs" / "gallery"


def main() -> None:
    card = json.loads((WORLD / "world.json").read_text("utf-8"))
    files = np.load(WORLD / "efficientnet-lite0.npz")
    arms = {name: files[f"arm_{i}"] for i, name in enumerate(card["arms"])}

    rows = []
    for weight in [0, *np.geomspace(1e-5, 4e-4, 25)]:
        objective = gx.Vendi() + weight * gx.Cost()
        mix = gx.optimal_mixture(arms, objective, cost=card["costs"])
        rows.append({"Vendi": float(mix.score["vendi"]), "cost": float(mix.score["cost"])})
        print(
            f"weight {weight:.1e}  {mix.score['vendi']:.1f} Vendi at cost {mix.score['cost']:.1f}"
        )

    points = alt.Chart(alt.Data(values=rows), title="Diversity against cost").encode(
        alt.X("cost:Q", title=f"mean cost of a sample ({card['cost_unit']})"),
        alt.Y("Vendi:Q", title="Vendi score of the mixture", scale=alt.Scale(zero=False)),
    )
    chart = points.mark_line(color="#3f51b5") + points.mark_point(filled=True, color="#3f51b5")
    chart.properties(width=460, height=260).save(OUT / "price.png", scale_factor=2)


if __name__ == "__main__":
    main()
