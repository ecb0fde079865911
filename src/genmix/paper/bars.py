"""The Fréchet distance of every arm beside that of the best mixture.

The distance of few samples is larger than that of many, and a weighted mixture of all samples has more
of them than any arm. So every bar is a set of the same size: an arm's held-out half, or as many samples
drawn from the held-out halves in the mixture's shares. The shares come from the other halves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import genmix as gx
from genmix.diagnosis.halves import Spread
from genmix.offline.mixture import Pool, proportional
from genmix.paper import published, text
from genmix.paper.features import Source, sources
from genmix.paper.item import Item, Made, Rows, Setting
from genmix.paper.parallel import in_parallel
from genmix.paper.published import choices
from genmix.paper.tables import Arms, halves, reference_of, repeats

MIXTURE, EVEN = "best mixture", "even mixture"

WHISKER = 1.96
"""Standard deviations either side: where 95 % of the splits lie."""


def make_bars(setting: Setting) -> Made:
    """Measure, draw and say."""
    from genmix import charts

    (source,) = sources(setting, ("ffhq",))
    rows, gains = measure(setting, source)
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
    return Made({"bars": rows, "gains": gains}, {"fd-bars": chart}, words(source, rows, gains))


def measure(setting: Setting, source: Source) -> tuple[Rows, Rows]:
    """Every set's distance over the splits, and how far the mixture is below the best arm in each."""
    arms = source.world.arms
    objective = gx.FrechetDistance(reference_of(source))
    splits = in_parallel(
        setting, "fig-fd-bars", split, (arms, objective, setting.seed), range(repeats(setting))
    )
    rows = []
    for name in (*arms, EVEN, MIXTURE):
        over = Spread.of([found["fd"][name] for found in splits])
        shares = [found["weights"].get(name, np.nan) for found in splits]
        rows.append(
            {
                "set": name,
                "kind": {EVEN: "even", MIXTURE: "mixture"}.get(name, "arm"),
                "fd_mean": over.mean,
                "fd_std": over.std,
                "weight_mean": float(np.mean(shares)) if name in arms else None,
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


def split(shared: tuple[Arms, gx.FrechetDistance, int], index: int) -> dict[str, Any]:
    """Weights from one half of every arm, distances of sets of equal size from the other."""
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
    """``size`` different samples of the arms in these shares, by largest remainders."""
    counts = proportional(np.array([weights[name] for name in arms]), size)
    parts = [
        rows[rng.choice(len(rows), count, replace=False)]
        for rows, count in zip(arms.values(), counts, strict=True)
    ]
    return np.concatenate(parts)


def words(source: Source, rows: Rows, gains: Rows) -> str:
    """The numbers, ours and the paper's."""
    best, gain = gains[0]["best_arm"], Spread.of([row["gain"] for row in gains])
    better = sum(row["gain"] > 0 for row in gains)
    lines = [
        [
            row["set"],
            text.spread(Spread(row["fd_mean"], row["fd_std"])),
            text.number(row["weight_mean"]),
        ]
        for row in rows
    ]
    headings = ["set", "FD ↓", "weight"]
    if source.is_paper:
        headings.append("FD in the paper")
        known = {
            published.FFHQ_BEST_ARM: published.FFHQ_BEST_ARM_FD,
            MIXTURE: published.FFHQ_MIXTURE_FD,
        }
        for line, row in zip(lines, rows, strict=True):
            line.append(text.number(known.get(row["set"])))
    data = "The same data." if source.is_paper else f"Other data than {source.world.name}'s."
    drop = published.FFHQ_BEST_ARM_FD - published.FFHQ_MIXTURE_FD
    return "\n\n".join(
        [
            f"### {source.title}",
            text.data_line(source.world),
            f"Mean ± standard deviation over {len(gains)} random splits: the weights are those of one "
            f"half of every arm, and each set has {rows[0]['samples']} samples of the other halves. "
            f"Whiskers in the figure are ± {WHISKER} standard deviations.",
            text.table(headings, lines),
            f"The best mixture is {gain.mean:.4g} ± {gain.std:.2g} below the best arm, {best}, and below "
            f"it in {better} of {len(gains)} splits.",
            f"The paper, on FFHQ: {published.FFHQ_BEST_ARM} {published.FFHQ_BEST_ARM_FD}, the mixture "
            f"{published.FFHQ_MIXTURE_FD}, which is {drop:.2f} lower. {data}",
        ]
    )


ITEMS = (
    Item(
        "fig-fd-bars",
        "FD of every arm beside that of the best mixture, on FFHQ",
        "ffhq with real data",
        "fashion",
        choices("ffhq-gap"),
        make_bars,
    ),
)
