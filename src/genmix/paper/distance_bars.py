"""The Fréchet distance of every arm and of the best mixture.

Small sets have larger distances than large sets, and a weighted mixture of all samples is a larger set than
any arm. Every bar therefore shows a set of the same size: the held-out half of an arm, or the same
number of samples drawn from the held-out halves according to the weights of a mixture. The weights come from
the other halves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import genmix as gx
from genmix.core.text import number
from genmix.diagnosis.resampling import Spread
from genmix.objectives.pool import Pool
from genmix.offline.mixture import apportion
from genmix.paper import published
from genmix.paper.feature_files import LoadedDataset, load_datasets
from genmix.paper.items import Item, ItemOutput, Rows, Settings
from genmix.paper.markdown import data_line, spread, table
from genmix.paper.published import choices
from genmix.paper.subsamples import Arms, halves, over_subsamples

MIXTURE, EVEN = "best mixture", "even mixture"

WHISKER = 1.96
"""The length of a whisker in standard deviations, so that whiskers cover 95% of the splits."""


def make_bars(settings: Settings) -> ItemOutput:
    from genmix import charts

    (data,) = load_datasets(settings, ("ffhq",))
    rows, gains = measure(settings, data)
    bars = [
        {
            "label": row["set"],
            "mean": row["fd_mean"],
            "low": row["fd_mean"] - WHISKER * row["fd_std"],
            "high": row["fd_mean"] + WHISKER * row["fd_std"],
            "kind": row["kind"],
        }
        for row in rows
    ]
    chart = charts.bars(bars, "FD ↓ (lower is better)")
    tables = {"bars": rows, "gains": gains}
    return ItemOutput(tables, {"fd-bars": chart}, report(data, rows, gains))


def measure(settings: Settings, data: LoadedDataset) -> tuple[Rows, Rows]:
    """Measure the distance of every set over the splits, and by how much the mixture beats the best arm."""
    arms = data.world.arms
    shared = (arms, gx.FrechetDistance(data.real_data()), settings.seed)
    splits = over_subsamples(settings, "fig-fd-bars", measure_split, shared)
    rows = []
    for name in (*arms, EVEN, MIXTURE):
        over = Spread.of([found["fd"][name] for found in splits])
        weights = [found["weights"].get(name, np.nan) for found in splits]
        rows.append(
            {
                "set": name,
                "kind": {EVEN: "even", MIXTURE: "mixture"}.get(name, "arm"),
                "fd_mean": over.mean,
                "fd_std": over.std,
                "weight_mean": float(np.mean(weights)) if name in arms else None,
                "samples": splits[0]["samples"],
                "splits": len(splits),
            }
        )
    best = min(arms, key=lambda name: float(np.mean([found["fd"][name] for found in splits])))
    gains = [
        {"split": i, "best_arm": best, "gain": found["fd"][best] - found["fd"][MIXTURE]}
        for i, found in enumerate(splits)
    ]
    return rows, gains


def measure_split(shared: tuple[Arms, gx.FrechetDistance, int], index: int) -> dict[str, Any]:
    """Compute weights from one half of every arm, and the distances of sets of equal size from the other."""
    arms, objective, seed = shared
    first, second = halves(arms, seed, index)
    weights = gx.optimal_mixture(first, objective).weights
    size = min(len(rows) for rows in second.values())
    rng = np.random.default_rng([seed, index])
    even = dict.fromkeys(arms, 1 / len(arms))
    sets = {name: rows[:size] for name, rows in second.items()}
    sets |= {EVEN: drawn(second, even, size, rng), MIXTURE: drawn(second, weights, size, rng)}
    loss = Pool.of(sets, objective).tally.loss(range(len(sets)))
    scores = {name: loss.score(one) for name, one in zip(sets, np.eye(len(sets)), strict=True)}
    return {"fd": scores, "weights": weights, "samples": size}


def drawn(arms: Arms, weights: dict[str, float], size: int, rng: np.random.Generator) -> Any:
    """Draw ``size`` distinct samples from the arms in proportion to the weights."""
    counts = apportion(np.array([weights[name] for name in arms]), size)
    parts = [
        rows[rng.choice(len(rows), count, replace=False)]
        for rows, count in zip(arms.values(), counts, strict=True)
    ]
    return np.concatenate(parts)


def report(data: LoadedDataset, rows: Rows, gains: Rows) -> str:
    """Format our numbers and the paper's."""
    best, gain = gains[0]["best_arm"], Spread.of([row["gain"] for row in gains])
    better = sum(row["gain"] > 0 for row in gains)
    headings = ["set", "FD ↓", "weight"]
    lines = [
        [row["set"], spread(row["fd_mean"], row["fd_std"]), number(row["weight_mean"])]
        for row in rows
    ]
    if data.is_paper:
        headings.append("FD in the paper")
        known = {
            published.FFHQ_BEST_ARM: published.FFHQ_BEST_ARM_FD,
            MIXTURE: published.FFHQ_MIXTURE_FD,
        }
        for line, row in zip(lines, rows, strict=True):
            line.append(number(known.get(row["set"])))
    same = (
        "Those are the same data."
        if data.is_paper
        else f"The data above are from {data.world.name}, so the values cannot be compared."
    )
    drop = published.FFHQ_BEST_ARM_FD - published.FFHQ_MIXTURE_FD
    return "\n\n".join(
        [
            f"### {data.title}",
            data_line(data.world),
            f"Mean ± standard deviation over {len(gains)} random splits. The weights come from one "
            f"half of every arm, and each set has {rows[0]['samples']} samples from the other halves. "
            f"Whiskers in the figure show ± {WHISKER} standard deviations.",
            table(headings, lines),
            f"The FD of the best mixture is {gain.mean:.4g} ± {gain.std:.2g} below that of the best arm, "
            f"{best}. It is lower in {better} of {len(gains)} splits.",
            f"On FFHQ, the paper reports {published.FFHQ_BEST_ARM_FD} for {published.FFHQ_BEST_ARM} and "
            f"{published.FFHQ_MIXTURE_FD} for the mixture, which is {drop:.2f} lower. {same}",
        ]
    )


ITEMS = (
    Item(
        "fig-fd-bars",
        "FD of every arm and of the best mixture, on FFHQ",
        "ffhq with real data",
        "fashion",
        choices("ffhq-gap"),
        make_bars,
    ),
)
