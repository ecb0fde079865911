"""Compare policies on recorded language-model samples: ``python examples/gallery/policies.py``."""

from __future__ import annotations

import json
from pathlib import Path

import altair as alt
import numpy as np

import genmix as gx

ROOT = Path(__file__).parents[2]
WORLD = ROOT / "worlds" / "city"
OUT = ROOT / "docs" / "gallery"
POLICIES = {
    "Mixture-Greedy": gx.MixtureGreedy(),
    "Mixture-UCB": gx.MixtureUCB(),
    "uniform": gx.Uniform(),
    "best arm": "one-arm-oracle",
}


def main() -> None:
    names = json.loads((WORLD / "world.json").read_text("utf-8"))["arms"]
    files = np.load(WORLD / "minilm.npz")
    arms = {name: files[f"arm_{i}"] for i, name in enumerate(names)}

    found = gx.compare(arms, policies=POLICIES, objective=gx.RKE(), budget=300, repeats=10)
    print(found)

    rows = [
        {"policy": row["policy"], "samples": row["t"], "RKE": row["pooled_rke"]}
        for row in found.curve_table()
    ]
    chart = alt.Chart(alt.Data(values=rows), title="RKE of all samples so far").mark_line()
    chart = chart.encode(
        alt.X("samples:Q", scale=alt.Scale(type="log", nice=False)),
        alt.Y("mean(RKE):Q", title="RKE, mean of 10 runs", scale=alt.Scale(zero=False)),
        alt.Color("policy:N", title=None, sort=list(POLICIES)),
    )
    chart.properties(width=460, height=260).save(OUT / "policies.png", scale_factor=2)


if __name__ == "__main__":
    main()
