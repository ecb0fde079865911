"""Beyond the paper: keeping the best k of N samples, against other ways to choose them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from time import process_time
from typing import Any

import numpy as np

import genmix as gx
from genmix.comparison.presentation import VERDICTS
from genmix.comparison.statistics import LEVEL, holm, mean_interval, paired
from genmix.comparison.worlds import World
from genmix.core.text import listed
from genmix.objectives import Batch
from genmix.paper import keep_rivals
from genmix.paper.comparisons import recorded_worlds
from genmix.paper.items import Item, ItemOutput, Rows, Settings, in_parallel
from genmix.paper.keep_rivals import available_rules, unit
from genmix.paper.markdown import plus_minus, table
from genmix.paper.subsamples import draw_from

SIZE, QUICK_SIZE = (300, 100), (60, 20)
"""Number of samples, and how many of them are kept."""
SEEDS, QUICK_SEEDS = 20, 2
KEEP = "keep"


Measured = dict[str, dict[str, Any]]
"""The score, precision and time of every rule, and keep's bound."""


@dataclass(frozen=True)
class Problem:
    """A world, the mixture to draw from, and what is optimized."""

    world: World
    weights: list[float]
    objectives: dict[str, gx.Objective]
    size: tuple[int, int]
    seed: int

    @classmethod
    def of(cls, world: World, size: tuple[int, int], seed: int) -> Problem:
        mixture = gx.optimal_mixture(world.arms, gx.Vendi())
        objectives: dict[str, gx.Objective] = {"Vendi": gx.Vendi()}
        if world.reference is not None:
            objectives["KD"] = gx.KernelDistance(world.reference, gx.Gaussian("median"))
        return cls(world, list(mixture.weights.values()), objectives, size, seed)

    def draw(self, seed: int) -> tuple[Any, np.random.Generator]:
        """Draw samples from the mixture; the generator is for the rules."""
        rng = np.random.default_rng([self.seed, seed])
        pools = list(self.world.arms.values())
        drawn = draw_from([len(pool) for pool in pools], self.weights, self.size[0], rng)
        return np.concatenate(pools)[drawn], rng


def keep_table(settings: Settings) -> ItemOutput:
    """Compare kept sets with those of other rules, for Vendi and for the kernel distance."""
    rows: Rows = []
    parts, summaries, checks = [], [], []
    for world in recorded_worlds(settings):
        problem = Problem.of(world, QUICK_SIZE if settings.quick else SIZE, settings.seed)
        seeds = range(QUICK_SEEDS if settings.quick else SEEDS)
        draws = in_parallel(settings, f"{world.name}, keep", one_draw, problem, seeds)
        for title in problem.objectives:
            sets = [draw[title] for draw in draws]
            made = _compared(sets, title, problem)
            rows += made
            summaries.append(_summary(made, sets))
            parts += [f"### {title}, {world.name}", "", _table(made), ""]
        if not settings.quick:
            checks += _apricot_check(problem)
    text = [_introduction(settings), *summaries, "", *checks, "", *parts]
    return ItemOutput({"rules": rows}, {}, "\n".join(text))


# -- one draw ----------------------------------------------------------------------------------------


def one_draw(problem: Problem, seed: int) -> dict[str, Measured]:
    """Choose among the samples of one seed by every rule, and by keep for every objective."""
    samples, rng = problem.draw(seed)
    rows, k = unit(samples), problem.size[1]
    chosen = {f"all {len(rows)}": np.arange(len(rows))}
    seconds = dict.fromkeys(chosen, 0.0)
    for name, rule in available_rules().items():
        begin = process_time()
        chosen[name] = rule(rows, k, rng)
        seconds[name] = process_time() - begin
    found = {}
    for title, objective in problem.objectives.items():
        begin = process_time()
        kept = gx.keep(samples, k, objective)
        seconds[KEEP] = process_time() - begin
        sets = {KEEP: kept.indices} | chosen
        found[title] = _measured(problem, samples, sets, kept.objective)
        for name, measured in found[title].items():
            measured["seconds"] = seconds[name]
        found[title][KEEP] |= {"bound": kept.bound, "is_bound_tight": kept.is_bound_tight}
    return found


def _measured(problem: Problem, samples: Any, sets: Any, objective: gx.Objective) -> Measured:
    terms = {"score": objective}
    if problem.world.reference is not None:
        terms["precision"] = gx.Precision(problem.world.reference)
    found: Measured = {name: {} for name in sets}
    for key, term in terms.items():
        values = scores_of(term, [samples[indices] for indices in sets.values()])
        for measured, value in zip(found.values(), values, strict=True):
            measured[key] = value
    return found


def scores_of(objective: gx.Objective, sets: Sequence[Any]) -> list[float]:
    """Return the score of every set, with the reference's own statistics computed once."""
    tally = objective.tally(len(sets), sets[0])
    for index, rows in enumerate(sets):
        tally.add(index, Batch(rows))
    loss = tally.loss(range(len(sets)))
    return [float(objective.scores(loss, only, {})) for only in np.eye(len(sets))]  # type: ignore[arg-type]


# -- tables ------------------------------------------------------------------------------------------


def _compared(sets: list[Measured], title: str, problem: Problem) -> Rows:
    """Return one row per rule, with keep's paired gain over it; Holm's correction is for one table."""
    sign = 1 if problem.objectives[title].maximise else -1
    mine = np.array([each[KEEP]["score"] for each in sets])
    rows: Rows = []
    for name in sets[0]:
        scores = np.array([each[name]["score"] for each in sets])
        gains = 100 * sign * (mine / scores - 1)
        test = paired(gains, np.zeros(len(gains)))
        interval = mean_interval(scores)
        rows.append(
            {
                "world": problem.world.name,
                "objective": title,
                "rule": name,
                "score": interval.mean,
                "score_text": plus_minus(interval),
                "precision": _mean(sets, name, "precision"),
                "gain_percent": test.difference.mean,
                "low": test.difference.low,
                "high": test.difference.high,
                "smallest_gain_percent": float(gains.min()),
                "p": test.t_test,
                "seconds": float(np.median([each[name]["seconds"] for each in sets])),
                "bound": _mean(sets, name, "bound"),
            }
        )
    others = [row for row in rows if row["rule"] != KEEP]
    for row, p in zip(others, holm([row["p"] for row in others]), strict=True):
        row["p"] = p
    return rows


def _mean(sets: list[Measured], name: str, key: str) -> float | None:
    values = [each[name][key] for each in sets if key in each[name]]
    return float(np.mean(values)) if values else None


def _verdict(row: dict[str, Any]) -> str:
    return VERDICTS[row["gain_percent"] > 0 if row["p"] < 1 - LEVEL else None]


def _table(rows: Rows) -> str:
    headings = [
        "rule",
        "score",
        "precision",
        "keep's gain in % (95%)",
        "smallest gain in %",
        "p (Holm)",
        "keep is",
        "seconds",
    ]
    lines = []
    for row in rows:
        cells = ["–"] * 4
        if row["rule"] != KEEP:
            cells = [
                f"{row['gain_percent']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]",
                f"{row['smallest_gain_percent']:+.2f}",
                f"{row['p']:.2g}",
                _verdict(row),
            ]
        precision = "–" if row["precision"] is None else f"{row['precision']:.3f}"
        lines.append([row["rule"], row["score_text"], precision, *cells, f"{row['seconds']:.3f}"])
    return table(headings, lines)


# -- sentences ---------------------------------------------------------------------------------------


def _introduction(settings: Settings) -> str:
    n, k = QUICK_SIZE if settings.quick else SIZE
    seeds = QUICK_SEEDS if settings.quick else SEEDS
    missing = "" if find_spec("dppy") else " The k-DPP is missing, because dppy is not installed."
    return (
        f"{n} different samples are drawn from the mixture with the best Vendi score, and {k} of them "
        f"are chosen; {seeds} seeds. `keep` optimizes the score in the title of the table: Vendi of "
        "order 1 with the cosine kernel, or KD with a Gaussian kernel of the median bandwidth. The "
        "other rules do not know this score, except lazy greedy, which maximizes Vendi. The gain is "
        "positive if the kept samples score better; the smallest gain is that of the worst seed. "
        "Seconds are medians of the CPU time. The similarity threshold is that of SemDeDup, set so that "
        f"{k} samples remain.{missing}\n"
    )


def _summary(rows: Rows, sets: list[Measured]) -> str:
    """Say which rules keep beats, and how far it is from the bound."""
    kept, *others = rows
    relations = (
        "better than {}",
        "worse than {}",
        "not significantly different from {}",
    )
    comparisons = []
    for verdict, relation in zip(VERDICTS.values(), relations, strict=True):
        names = [row["rule"] for row in others if _verdict(row) == verdict]
        if names:
            comparisons.append(relation.format(listed(names)))
    gap = abs(kept["bound"] / kept["score"] - 1)
    tight = all(each[KEEP]["is_bound_tight"] for each in sets)
    parts = [
        f"- **{kept['objective']}, {kept['world']}**: keep is {', '.join(comparisons)}.",
        f"Its mean score is {kept['score']:.4g} and the mean bound {kept['bound']:.4g}, a gap of {gap:.1%}, "
        f"where the bound is expected to be {'tight' if tight else 'loose'}.",
    ]
    if kept["objective"] == "Vendi":
        greedy = next(row for row in others if row["rule"] == "lazy greedy")
        parts.append(
            f"Its gain over lazy greedy is {greedy['gain_percent']:+.2f}%, and "
            f"{greedy['smallest_gain_percent']:+.2f}% on the worst seed."
        )
    return " ".join(parts)


def _apricot_check(problem: Problem) -> list[str]:
    """Compare our facility location with apricot's, on the first draw."""
    if not find_spec("apricot"):
        return []
    rows = unit(problem.draw(0)[0])
    k, rng = problem.size[1], np.random.default_rng(0)
    ours = keep_rivals.covered_similarity(rows, keep_rivals.facility_location(rows, k, rng))
    begin = process_time()
    theirs = keep_rivals.covered_similarity(rows, keep_rivals.apricot_facility_location(rows, k))
    return [
        f"On the first draw of {problem.world.name}, apricot's facility location reaches {theirs:.6g} in "
        f"{process_time() - begin:.1f} s, including compilation; ours reaches {ours:.6g}."
    ]


ITEMS = (
    Item(
        "beyond-keep",
        "Keeping the best 100 of 300 samples, against other ways to choose them",
        "none; this item uses only the recorded worlds",
        "fashion, breeds, boots, city",
        "",
        keep_table,
    ),
)
