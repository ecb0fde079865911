"""Draws the README's picture from a run of the demo: ``python docs/picture.py``."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import numpy as np

import genmix as gx
from genmix.demo.digits import make_world
from genmix.demo.run import Run

SEED, BUDGET = 0, 2000
OUT = Path(__file__).parent


def main() -> None:
    world = make_world(SEED)
    run = Run(world, "FD", gx.FrechetDistance(world.reference), SEED)
    shares: list[dict[str, object]] = []
    pooled: list[dict[str, object]] = []
    checkpoints = set(np.unique(np.geomspace(56, BUDGET, 60).astype(int) // 8 * 8).tolist())

    def record(step: object) -> None:
        if run.done in checkpoints and run.selector.pooled_score is not None:
            checkpoints.discard(run.done)
            weights = run.selector.weights
            shares.extend({"samples": run.done, "arm": a, "weight": w} for a, w in weights.items())
            pooled.append({"samples": run.done, "FD": float(run.selector.pooled_score)})

    run.play(BUDGET, record)
    scores = run.evaluate()
    lines = [{"what": f"{arm} alone", "FD": fd} for arm, fd in scores.singles.items() if fd < 1.2]
    lines += [
        {"what": "best mixture", "FD": scores.oracle},
        {"what": "uniform", "FD": scores.uniform},
    ]

    x = alt.X("samples:Q", title="samples generated", scale=alt.Scale(type="log", nice=False))
    left = (
        alt.Chart(alt.Data(values=shares), title="What the next sample is drawn from")
        .mark_area()
        .encode(
            x,
            alt.Y("weight:Q", title="weight", stack=True, scale=alt.Scale(domain=[0, 1])),
            alt.Color("arm:N", title=None, legend=alt.Legend(orient="bottom", columns=3)),
        )
        .properties(width=380, height=240)
    )
    y = alt.Y("FD:Q", title="Fréchet distance to held-out digits", scale=alt.Scale(domain=[0, 1.4]))
    curve = (
        alt.Chart(alt.Data(values=pooled))
        .mark_line(strokeWidth=3, color="#222", clip=True)
        .encode(x, y)
    )
    rules = alt.Chart(alt.Data(values=lines)).mark_rule(strokeDash=[4, 3], color="#888").encode(y)
    names = [
        alt.Chart(alt.Data(values=[line]))
        .mark_text(align="right", dy=10 if line["what"] == "best mixture" else -6, color="#666")
        .encode(y, x=alt.value(376), text="what:N")
        for line in lines
    ]
    right = alt.layer(curve, rules, *names).properties(
        width=380, height=240, title="All samples so far, against the alternatives"
    )
    chart = (left | right).configure(background="white").configure_title(anchor="start")
    chart.save(OUT / "assets" / "digits.svg")
    chart.save(OUT / "assets" / "digits.png", scale_factor=1)  # to look at; the README shows the SVG


if __name__ == "__main__":
    main()
