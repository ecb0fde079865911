"""Ask and tell in your own loop, with costs and failures: ``python examples/gallery/own_loop.py``."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import numpy as np

import genmix as gx

OUT = Path(__file__).parents[2] / "docs" / "gallery"
PRICES = {"large": 1.0, "small": 0.1, "unreliable": 0.1}


def main() -> None:
    rng = np.random.default_rng(0)
    themes = {
        "large": 40,
        "small": 15,
        "unreliable": 25,
    }  # number of themes of each generator
    centers = np.linalg.qr(rng.normal(size=(64, 64)))[0]

    def generate(arm: str) -> np.ndarray | None:
        if arm == "unreliable" and rng.random() < 0.3:
            return None  # the call failed
        return centers[-1 - rng.integers(themes[arm])] + 0.05 * rng.normal(size=64)

    selector = gx.Selector(PRICES, gx.Vendi() + 0.2 * gx.Cost(), warm_start=10, seed=0)
    rows = []
    while selector.total < 600:
        for ticket in selector.ask(6):
            embedding = generate(ticket.arm)
            if embedding is None:
                selector.fail(ticket)
            else:
                selector.tell(ticket, embedding, cost=PRICES[ticket.arm])
        told = selector.total
        rows += [{"samples": told, "arm": a, "weight": w} for a, w in selector.weights.items()]
    print(selector.weights, selector.score, selector.failures, sep="\n")

    chart = alt.Chart(alt.Data(values=rows), title="Weights while samples come in").mark_area()
    chart = chart.encode(
        alt.X("samples:Q", scale=alt.Scale(nice=False)),
        alt.Y("weight:Q", stack=True, scale=alt.Scale(domain=[0, 1])),
        alt.Color("arm:N", title=None, sort=list(PRICES)),
    )
    chart.properties(width=460, height=240).save(OUT / "own-loop.png", scale_factor=2)


if __name__ == "__main__":
    main()
