"""Draw the README's picture from a run of the demo, and print its figures: ``python docs/picture.py``."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from PIL import Image

import genmix as gx
from genmix.demo import STUDY, demo_study
from genmix.demo.digits import draw, embed

SEED, BUDGET, FRESH = 0, 2000, 2000
SEEDS = range(13)
"""The seeds over which the README quotes a range."""

OUT = Path(__file__).parent / "assets"


def fresh_pools(arms: list[str]) -> dict[str, Any]:
    """Embeddings of samples that the run has not seen."""
    seeds = range(10**6, 10**6 + FRESH)
    return {arm: embed([_png(image) for image in draw(seeds, arm)]) for arm in arms}


def _png(image: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def _learned(seed: int, pools: dict[str, Any], objective: gx.Objective) -> float:
    """The FD, on fresh samples, of the mixture that the demo learns with another seed."""
    with tempfile.TemporaryDirectory() as folder:
        weights = gx.run(demo_study(BUDGET, seed, "fd"), Path(folder) / "run").weights
    return float(gx.score(pools, objective, weights=weights).mixture[objective.name])


def main() -> None:
    shares: list[dict[str, object]] = []
    pooled: list[dict[str, object]] = []
    checkpoints = set(np.unique(np.geomspace(56, BUDGET, 60).astype(int) // 8 * 8).tolist())

    def record(live: Any) -> None:
        reached = {point for point in checkpoints if point <= live.told}
        if reached and live.selector.pooled_score is not None:
            checkpoints.difference_update(reached)
            weights = live.selector.weights
            shares.extend({"samples": live.told, "arm": a, "weight": w} for a, w in weights.items())
            pooled.append({"samples": live.told, "FD": float(live.selector.pooled_score)})

    with tempfile.TemporaryDirectory() as folder:
        study = demo_study(BUDGET, SEED, "fd")
        mixture = gx.run(study, Path(folder) / "run", callbacks=[record]).weights
    pools = fresh_pools(list(mixture))
    objective = gx.FrechetDistance(STUDY.with_name("held-out.npz"))
    best = gx.optimal_mixture(pools, objective)
    even = dict.fromkeys(pools, 1 / len(pools))
    learned, uniform = (
        gx.score(pools, objective, weights=weights).mixture[objective.name]
        for weights in (mixture, even)
    )
    print("alone:", {arm: round(float(score), 3) for arm, score in best.single_scores.items()})
    print(f"learned mixture {learned:.3f}, even {uniform:.3f}, best mixture {best.score:.3f}")
    others = [_learned(seed, pools, objective) for seed in SEEDS if seed != SEED]
    every = sorted([float(learned), *others])
    above = [f"{100 * (score / float(best.score) - 1):.2f}%" for score in every]
    print(f"over {len(every)} seeds: FD {every[0]:.3f} to {every[-1]:.3f}, above the best:", *above)

    singles = {arm: float(score) for arm, score in best.single_scores.items() if score < 1.2}
    lines = [{"what": f"{arm} alone", "FD": fd} for arm, fd in singles.items()]
    lines += [
        {"what": "best mixture", "FD": float(best.score)},
        {"what": "uniform", "FD": float(uniform)},
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
    chart.save(OUT / "digits.svg")
    chart.save(OUT / "digits.png", scale_factor=1)


if __name__ == "__main__":
    main()
