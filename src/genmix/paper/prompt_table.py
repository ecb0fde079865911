"""Beyond the paper: a mixture for every group of prompts, against one mixture for all and other policies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import genmix as gx
from genmix.comparison.comparison import Comparison
from genmix.comparison.presentation import VERDICTS
from genmix.comparison.statistics import LEVEL, Interval, holm, mean_interval, paired
from genmix.comparison.variant import Variant
from genmix.comparison.worlds import World, load_world
from genmix.core.text import listed
from genmix.kernels.joint import uses_pairs
from genmix.paper.comparisons import Size, compare_policies
from genmix.paper.items import Item, ItemOutput, Rows, Settings
from genmix.paper.markdown import plus_minus, table
from genmix.solvers.pooling import POOLING as DEFAULT_POOLING

WORLDS = ("topics", "wardrobe")
TIMES = {"RKE": (200, 500, 1000, 3000), "Vendi": (200, 500, 1000)}
"""When the policies are compared; the last time is the length of the runs."""
REPEATS = 20
QUICK_TIMES, QUICK_REPEATS = (130, 160), 4
WARM_CELL = 3
"""Samples per arm and group in the warm start. With pooling it is per arm, and has the same size."""
GROWTH = 0.03
"""Mixtures are re-solved at this growth, because the runs are long and there are many of them."""

POOLING = (0.0, 1.0, 3.0, 10.0, 30.0)
KERNEL = gx.Gaussian(math.sqrt(0.5))
"""The kernel of DAK-UCB with its published parameter, for embeddings of length 1."""

PER_GROUP, ONE = "per-group greedy", "one mixture for all"
SHORT = f"per group, κ = {DEFAULT_POOLING:g}, short warm start"
TRACKING = "per-group greedy, tracking"
PER_GROUP_V, ONE_V = "per group, default policy", "one mixture for all, default policy"
ORACLE, ONE_ORACLE, ARM_ORACLE = "per-group oracle", "oracle, one mixture", "oracle, one arm"
PAK = "PAK-UCB"
BASELINES = (ONE, ONE_V, "uniform", "one-arm greedy", PAK, "DAK-UCB", "Mixture-DAK-UCB")

OURS = (PER_GROUP, TRACKING, PER_GROUP_V)

Curves = NDArray[np.float64]


def prompted_worlds(settings: Settings) -> list[World]:
    return [load_world(name, settings.worlds) for name in WORLDS]


def objectives_for(world: World) -> dict[str, gx.Objective]:
    """Return objectives of the whole set (outputs) and of each prompt's answers (pairs)."""
    assert world.prompts is not None
    pairs = gx.Joint(world.prompts.embeddings.shape[1], prompt=KERNEL, output=KERNEL)
    return {
        "RKE, outputs": gx.RKE(KERNEL),
        "RKE, pairs": gx.RKE(pairs),
        "Vendi, outputs": gx.Vendi(),
    }


def pooling_label(pooling: float) -> str:
    return ONE if pooling == math.inf else f"per group, κ = {pooling:g}"


def variants(world: World, default: float) -> dict[str, Variant]:
    """Return everything that is compared, except PAK-UCB; ``default`` is the default κ."""
    pooled = {pooling_label(k): _per_group(world, k) for k in POOLING}
    usual = pooled[pooling_label(default)]
    return {
        **pooled,
        SHORT: Variant(groups=True, pooling=DEFAULT_POOLING),
        TRACKING: replace(usual, draw="tracking"),
        ONE: Variant(),
        PER_GROUP_V: replace(usual, policy=gx.MixtureUCBV()),
        ONE_V: Variant(gx.MixtureUCBV()),
        "uniform": Variant(gx.Uniform()),
        "one-arm greedy": Variant(gx.OneArmGreedy()),
        "DAK-UCB": Variant(gx.DAKUCB()),
        "Mixture-DAK-UCB": Variant(gx.MixtureDAKUCB()),
        ORACLE: Variant(oracle="mixture-oracle", groups=True),
        ONE_ORACLE: Variant(oracle="mixture-oracle"),
        ARM_ORACLE: Variant(oracle="one-arm-oracle"),
    }


def _per_group(world: World, pooling: float) -> Variant:
    """Return a mixture per group; the warm start has the same size for every κ."""
    assert world.prompts is not None
    each = WARM_CELL * (1 if pooling == 0 else len(world.prompts.group_names))
    return Variant(warm_start=each, groups=True, pooling=pooling)


def relevance(world: World) -> dict[str, NDArray[np.float64]]:
    """Return the quality that PAK-UCB maximizes: the cosine of every output with its prompt."""
    assert world.prompts is not None
    asked, answered = world.prompts.embeddings, world.prompts.answered
    cosines = {arm: np.sum(asked[answered[arm]] * rows, axis=1) for arm, rows in world.arms.items()}
    return {arm: np.round(values, 6) for arm, values in cosines.items()}


# -- running -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """The curves of all policies in one world under one objective."""

    world: str
    objective: str
    times: tuple[int, ...]
    scores: dict[str, Curves]
    """The score of all samples, (repeats, times)."""
    regret: dict[str, Curves]
    best: float
    """The population score of the best mixtures per group."""
    best_for_all: float
    default: float
    """The default κ of a selector."""

    @property
    def title(self) -> str:
        return f"{self.objective}, {self.world}"


def run_world(settings: Settings, world: World, name: str, objective: gx.Objective) -> Result:
    """Compare everything on one world; PAK-UCB also sees the relevance of every sample."""
    times = QUICK_TIMES if settings.quick else TIMES[name.split(",")[0]]
    size = Size(times[-1], QUICK_REPEATS if settings.quick else REPEATS)
    options: dict[str, Any] = {"resolve_growth": GROWTH, "points": 24, "record_at": times}
    default = 0.0 if uses_pairs(objective) else DEFAULT_POOLING
    compared = variants(world, default)
    found = compare_policies(settings, world, objective, compared, size, **options)
    rated = replace(world, qualities=relevance(world))
    policy = {PAK: Variant(gx.PAKUCB(rounds=size.rounds))}
    quality = compare_policies(settings, rated, objective, policy, size, **options)
    parts = dict.fromkeys(found.policies, found) | {PAK: quality}
    scores, regret = _curves(parts, times, "pooled"), _curves(parts, times, "regret")
    for each in (scores, regret):
        each[PER_GROUP] = each[pooling_label(default)]
    assert found.best_for_all is not None
    return Result(
        world.name, name, times, scores, regret, found.best_score, found.best_for_all, default
    )


def _curves(parts: Mapping[str, Comparison], times: Sequence[int], what: str) -> dict[str, Curves]:
    """Return a curve of every policy at the given times."""
    return {
        label: getattr(found, what)(label)[:, [found.place_of(t) for t in times]]
        for label, found in parts.items()
    }


def prompt_table(settings: Settings) -> ItemOutput:
    """Compare a mixture per group with one mixture for all, policies by the prompt, and the oracles."""
    results = [
        run_world(settings, world, name, objective)
        for world in prompted_worlds(settings)
        for name, objective in objectives_for(world).items()
    ]
    tests = [row for result in results for row in paired_tests(result)]
    scores = [row for result in results for row in score_rows(result)]
    pooling = pooling_rows(results)
    text = [
        _introduction(results),
        "### Is per-group greedy behind a baseline?",
        _summary(results, tests),
        "### When groups pay off",
        pay_table(results),
        "### How much to pool",
        pooling_text(results, pooling),
        *(part for result in results for part in _section(result, tests)),
    ]
    tables = {"scores": scores, "tests": tests, "pooling": pooling}
    return ItemOutput(tables, {}, "\n\n".join(text) + "\n")


# -- tests -------------------------------------------------------------------------------------------


def _gain(mine: Curves, theirs: Curves) -> tuple[Interval, float]:
    """Return the gain in percent of the other's mean, and the p-value of the paired t-test."""
    test = paired(100 * mine / theirs.mean(), 100 * theirs / theirs.mean())
    return test.difference, test.t_test


def paired_tests(result: Result) -> Rows:
    """Test the per-group policies against all baselines at all times; Holm's correction for each of them."""
    rows: Rows = []
    for policy in OURS:
        made: Rows = []
        for other in (*BASELINES, ORACLE):
            for k, t in enumerate(result.times):
                gain, p = _gain(result.scores[policy][:, k], result.scores[other][:, k])
                made.append(
                    {
                        "world": result.world,
                        "objective": result.objective,
                        "policy": policy,
                        "other": other,
                        "t": t,
                        "gain_percent": gain.mean,
                        "low": gain.low,
                        "high": gain.high,
                        "p": p,
                    }
                )
        for row, p in zip(made, holm([row["p"] for row in made]), strict=True):
            row["p"] = p
            row["verdict"] = VERDICTS[row["gain_percent"] > 0 if p < 1 - LEVEL else None]
        rows += made
    return rows


def score_rows(result: Result) -> Rows:
    rows: Rows = []
    for label, scores in result.scores.items():
        for k, t in enumerate(result.times):
            score, regret = mean_interval(scores[:, k]), mean_interval(result.regret[label][:, k])
            row = {"world": result.world, "objective": result.objective, "policy": label, "t": t}
            row |= {"score": score.mean, "low": score.low, "high": score.high}
            rows.append(row | {"regret": regret.mean, "text": plus_minus(score)})
    return rows


def best_baseline(result: Result, k: int) -> str:
    """Return the baseline with the best mean score at a time."""
    return max(BASELINES, key=lambda label: float(result.scores[label][:, k].mean()))


# -- pooling -----------------------------------------------------------------------------------------


def pooling_rows(results: Sequence[Result]) -> Rows:
    """Return the gain of every κ over one mixture for all, on either half of the repeats."""
    rows: Rows = []
    for result in results:
        for half, name in enumerate(("first", "second")):
            part = slice(half, None, 2)
            for k, t in enumerate(result.times):
                base = result.scores[ONE][part, k].mean()
                for pooling in (*POOLING, math.inf):
                    mean = result.scores[pooling_label(pooling)][part, k].mean()
                    row = {"world": result.world, "objective": result.objective, "t": t}
                    row |= {"half": name, "pooling": pooling}
                    rows.append(row | {"gain_percent": float(100 * (mean / base - 1))})
    return rows


def pooling_gain(rows: Rows, pooling: float, kind: str, **where: Any) -> float:
    """Return the mean gain of a κ over all rows of a kind of features that match."""
    found = [
        row["gain_percent"]
        for row in rows
        if row["pooling"] == pooling
        and row["objective"].endswith(kind)
        and all(row[key] == value for key, value in where.items())
    ]
    return float(np.mean(found))


def chosen_pooling(rows: Rows, kind: str, **where: Any) -> float:
    """Return the κ with the largest mean gain."""
    return max((*POOLING, math.inf), key=lambda pooling: pooling_gain(rows, pooling, kind, **where))


def _kappa(pooling: float) -> str:
    return "∞" if pooling == math.inf else f"{pooling:g}"


def pooling_text(results: Sequence[Result], rows: Rows) -> str:
    """Show the gain of every κ, which one the even seeds choose, and what the odd ones say."""
    lines = []
    for kind in ("outputs", "pairs"):
        for half, seeds in (("first", "even"), ("second", "odd")):
            gains = [pooling_gain(rows, k, kind, half=half) for k in (*POOLING, math.inf)]
            lines.append([f"{kind}, {seeds} seeds", *(f"{gain:+.2f}" for gain in gains)])
    longer = [
        _gain(each.scores[pooling_label(DEFAULT_POOLING)][:, k], each.scores[SHORT][:, k])[0].mean
        for each in results
        for k in range(len(each.times))
    ]
    return "\n\n".join(
        [
            "Mean gain in % over one mixture for all (κ = ∞). κ is chosen on the even seeds and judged on "
            "the odd ones, which took no part in the choice.",
            table(["", *(f"κ = {_kappa(k)}" for k in (*POOLING, math.inf))], lines),
            *(_choice(rows, kind, results) for kind in ("outputs", "pairs")),
            f"The warm start matters as much as κ: with κ = {DEFAULT_POOLING:g}, {WARM_CELL} samples per arm "
            f"and group gain {np.mean(longer):+.2f}% over 5 per arm on average, {max(longer):+.2f}% at most.",
        ]
    )


def _choice(rows: Rows, kind: str, results: Sequence[Result]) -> str:
    chosen = chosen_pooling(rows, kind, half="first")
    default = next(each.default for each in results if each.objective.endswith(kind))
    worlds = list(dict.fromkeys(each.world for each in results))
    alone = [f"{_kappa(chosen_pooling(rows, kind, world=name))} on {name}" for name in worlds]
    there, usual = (pooling_gain(rows, k, kind, half="second") for k in (chosen, default))
    best = chosen_pooling(rows, kind, half="second")
    return (
        f"- **{kind.capitalize()}**: the even seeds choose κ = {_kappa(chosen)}. On the odd seeds, it gains "
        f"{there:+.2f}% over one mixture for all, and the default, κ = {_kappa(default)}, gains "
        f"{usual:+.2f}%; the best κ there is {_kappa(best)}. By world, on all seeds: {listed(alone)}."
    )


# -- text --------------------------------------------------------------------------------------------


def _introduction(results: Sequence[Result]) -> str:
    repeats = len(results[0].scores[ONE])
    return (
        f"{repeats} paired seeds. In every round a prompt arrives, and the policy chooses the arm that "
        "answers it. `outputs` scores the whole set, `pairs` the pairs of prompt and answer, so that each "
        "prompt's answers should differ. RKE has the Gaussian kernel of DAK-UCB with its published "
        "parameter, on pairs the product with the same kernel on prompts, which is what DAK-UCB "
        "optimizes. Vendi has the cosine kernel. Per-group greedy is Mixture-Greedy with a mixture per "
        "group and the default pooling, κ = 3 on outputs and 0 on pairs. The default policy is Mixture- "
        f"UCB-V, which draws by tracking. The warm start is {WARM_CELL} samples per arm and group (with "
        "pooling, as many in total, per arm) for a mixture per group, and 5 per arm for all others. "
        f"Mixtures are re-solved at {GROWTH:.0%} growth. DAK-UCB and Mixture-DAK-UCB get no quality, so "
        "they optimize diversity alone. PAK-UCB optimizes only quality, here the cosine of an output with "
        "its prompt. Scores are those of all samples drawn. The regret of a policy that chooses by the "
        "prompt is that of the shares it has drawn in each group."
    )


def _summary(results: Sequence[Result], tests: Rows) -> str:
    """Say where a mixture per group is behind the best baseline, and how far it is from the oracle."""
    lines = [_against_best(results, tests, policy) for policy in OURS]
    times = max((each.times for each in results), key=len)
    distances = []
    for result in results:
        found = [[_find(tests, result, policy, ORACLE, t) for policy in OURS] for t in result.times]
        cells = [" / ".join(f"{row['gain_percent']:+.1f}" for row in each) for each in found]
        distances.append([result.title, *cells, *["–"] * (len(times) - len(cells))])
    return "\n".join(
        [
            *lines,
            "",
            f"Distance of {' / '.join(OURS)} to the per-group oracle, which knows the best mixtures from the "
            "first sample on, in %:",
            "",
            table(["", *(f"T = {t}" for t in times)], distances),
        ]
    )


def _against_best(results: Sequence[Result], tests: Rows, policy: str) -> str:
    rows = [
        _find(tests, result, policy, best_baseline(result, k), t)
        for result in results
        for k, t in enumerate(result.times)
    ]
    better, worse, equal = (
        sum(row["verdict"] == VERDICTS[key] for row in rows) for key in (True, False, None)
    )
    lowest = min(rows, key=lambda row: float(row["gain_percent"]))
    return (
        f"- **{policy}** against the best baseline of each case: better in {better}, worse in "
        f"{worse} and no significant difference in {equal} of {len(rows)}. The lowest "
        f"is {lowest['gain_percent']:+.1f}% against {lowest['other']} ({lowest['objective']}, "
        f"{lowest['world']}, T = {lowest['t']}; p {lowest['p']:.2g} after Holm's correction)."
    )


def _find(tests: Rows, result: Result, policy: str, other: str, t: int) -> dict[str, Any]:
    wanted = (result.world, result.objective, policy, other, t)
    return next(
        row
        for row in tests
        if (row["world"], row["objective"], row["policy"], row["other"], row["t"]) == wanted
    )


def pay_table(results: Sequence[Result]) -> str:
    """Compare what groups could gain, by the oracles, with what they gained."""
    rows = []
    for result in results:
        last = len(result.times) - 1
        first, final = (
            _gain(result.scores[PER_GROUP][:, k], result.scores[ONE][:, k])[0] for k in (0, last)
        )
        rows.append(
            [
                result.title,
                f"{100 * (result.best / result.best_for_all - 1):+.1f}",
                f"{first.mean:+.1f} [{first.low:+.1f}, {first.high:+.1f}]",
                f"{final.mean:+.1f} [{final.low:+.1f}, {final.high:+.1f}] at {result.times[last]}",
            ]
        )
    headings = [
        "",
        "best per group over best for all, in % (population)",
        f"per-group greedy over one mixture at T = {results[0].times[0]}, in % (95%)",
        "at the end, in % (95%)",
    ]
    return table(headings, rows)


def _section(result: Result, tests: Rows) -> list[str]:
    order = [*OURS, SHORT, *BASELINES, ORACLE, ONE_ORACLE, ARM_ORACLE]
    rows = []
    for label in order:
        scores = [plus_minus(mean_interval(column)) for column in result.scores[label].T]
        gains = ["–"] * 2
        if label in (*BASELINES, ORACLE):
            found = [
                _find(tests, result, PER_GROUP, label, t)
                for t in (result.times[0], result.times[-1])
            ]
            gains = [
                f"{row['gain_percent']:+.1f} [{row['low']:+.1f}, {row['high']:+.1f}], {row['verdict']}"
                for row in found
            ]
        rows.append([label, *scores, f"{result.regret[label][:, -1].mean():.3g}", *gains])
    headings = [
        "",
        *(f"T = {t}" for t in result.times),
        "regret",
        f"per-group greedy's gain at {result.times[0]} in % (95%)",
        f"at {result.times[-1]}",
    ]
    line = (
        f"Population scores: best mixtures per group {result.best:.4g}, best mixture for all "
        f"{result.best_for_all:.4g}. Verdicts are corrected for all times and rows (Holm)."
    )
    return [f"### {result.title}", line, table(headings, rows)]


ITEMS = (
    Item(
        "beyond-prompts",
        "A mixture for every group of prompts, against one for all and policies that choose by the prompt",
        "none; this item uses only the recorded worlds with prompts",
        "topics, wardrobe",
        "",
        prompt_table,
    ),
)
