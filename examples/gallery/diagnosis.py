"""Which generators carry the mixture? Run ``python examples/gallery/diagnosis.py``."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import numpy as np

import genmix as gx

OUT = Path(__file__).parents[2] / "docs" / "gallery"


def main() -> None:
    rng = np.random.default_rng(0)
    everyday = rng.normal(size=(8, 32))  # eight common themes
    rare = rng.normal(size=(4, 32))  # four themes of the specialist alone

    def samples(themes: np.ndarray, n: int = 600) -> np.ndarray:
        return themes[rng.integers(len(themes), size=n)] + 0.2 * rng.normal(size=(n, 32))

    arms = {
        "generalist": samples(everyday),
        "copy": samples(everyday),
        "specialist": samples(rare),
        "collapsed": samples(everyday[:1]),
    }
    diagnosis = gx.diagnose(arms, gx.Vendi(), repeats=20)
    print(diagnosis)

    mix = gx.optimal_mixture(arms, gx.Vendi())
    rows = [
        {"arm": arm, "what": what, "value": value}
        for what, values in (("weight", mix.weights), ("leave-one-out gap", mix.leave_one_out))
        for arm, value in values.items()
    ]
    bars = alt.Chart(alt.Data(values=rows)).encode(
        alt.Y("arm:N", title=None, sort=list(arms)), alt.X("value:Q", title=None)
    )
    bar = bars.mark_bar(color="#3f51b5").properties(width=230)
    chart = bar.facet(alt.Column("what:N", title=None, sort=["weight", "leave-one-out gap"]))
    chart.resolve_scale(x="independent").save(OUT / "diagnosis.png", scale_factor=2)


if __name__ == "__main__":
    main()
