"""Find the best mixture of five image generators: ``python examples/gallery/feature_files.py``."""

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
    names = json.loads((WORLD / "world.json").read_text("utf-8"))["arms"]
    files = np.load(WORLD / "efficientnet-lite0.npz")
    arms = {name: files[f"arm_{i}"] for i, name in enumerate(names)}

    mix = gx.optimal_mixture(
        arms, gx.FrechetDistance(files["reference"]), encoder="EfficientNet-Lite0"
    )
    print(mix)

    rows = [{"set": arm, "FD": float(score)} for arm, score in mix.single_scores.items()]
    rows.append({"set": "best mixture", "FD": float(mix.score)})
    bars = alt.Chart(alt.Data(values=rows), title="Fréchet distance to Fashion-MNIST").encode(
        alt.Y("set:N", title=None, sort=[*arms, "best mixture"]),
        alt.X("FD:Q", title="FD (lower is better)"),
    )
    chart = bars.mark_bar().encode(
        color=alt.condition(
            alt.datum.set == "best mixture", alt.value("#3f51b5"), alt.value("#b0bec5")
        )
    ) + bars.mark_text(align="left", dx=4).encode(text=alt.Text("FD:Q", format=".1f"))
    chart.properties(width=460).save(OUT / "feature-files.png", scale_factor=2)


if __name__ == "__main__":
    main()
