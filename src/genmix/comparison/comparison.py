"""What a comparison found: curves, regret, exploration, and which policy is better by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.comparison.cell import Cell
from genmix.comparison.plan import Plan
from genmix.comparison.statistics import (
    Exponent,
    Interval,
    Paired,
    bands,
    cumulated,
    exponent,
    mean_interval,
    paired,
    settled,
)
from genmix.comparison.variants import knows_its_shares
from genmix.core.atomic import make_folder, sweep, write_json
from genmix.core.plain import finite
from genmix.errors import InputError
from genmix.objectives.base import Objective
from genmix.policies.base import remarked
from genmix.solvers.simplex import uniform

EXPECTED_DRAWS = 10
"""An arm can be called locked out only if the best mixture would draw it this often in half a run."""

NEAR = (0.01, 0.05)

Table = list[dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """What came of one policy, over all repeats."""

    policy: str
    pooled: Interval
    """Score of all samples at the end."""
    mixture: Interval | None
    """Population score of the mixture at the end."""
    regret: Interval | None
    exponent: Exponent | None
    """Of regret in T."""
    least_share: Interval
    """``min_i n_i(T)/T``."""
    locked_out: float | None
    """Share of the repeats in which an arm of the optimum got no sample in the second half."""
    reached: dict[str, float]
    """Median time from which on the mixture's population score is within 1 % or 5 % of the best.

    Of the best score itself; for a sum of objectives, whose loss has no zero, of what is at stake.
    """
    shares: dict[str, float]
    """Mean share of each arm in the samples."""
    cost: Interval | None
    """Of a sample, on average."""


class Comparison:
    """Results of a comparison; ``str`` prints a table, ``save`` writes Parquet and figures."""

    def __init__(self, plan: Plan, cells: Sequence[Cell]) -> None:
        self.plan = plan
        self._cells = {label: [c for c in cells if c.label == label] for label in plan.variants}

    # -- what was compared -----------------------------------------------------------------------

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(self._cells)

    def named(self, policy: str) -> str:
        """Its name in tables, with what must be said of it under the objective that it learns with."""
        variant = self.plan.variants[policy]
        if variant.policy is None:
            return policy
        return remarked(policy, variant.policy.remark(variant.objective or self.objective))

    @property
    def repeats(self) -> int:
        return self.plan.repeats

    @property
    def objective(self) -> Objective:
        return self.plan.objective

    @property
    def score_name(self) -> str:
        """The score that policies are compared by: of a sum of objectives its loss."""
        return "loss" if self.plan.objective.name == "sum" else self.plan.objective.name

    @property
    def maximise(self) -> bool:
        return self.score_name != "loss" and self.plan.objective.maximise

    @property
    def times(self) -> NDArray[np.int64]:
        return self.plan.times

    @cached_property
    def best_score(self) -> float:
        """The population score of the best mixture."""
        best = self.plan.best
        weights = np.array(list(best.weights.values()))
        return best.loss if self.score_name == "loss" else best.function.score(weights)

    @property
    def best_weights(self) -> dict[str, float]:
        return self.plan.best.weights

    # -- curves ----------------------------------------------------------------------------------

    def pooled(self, policy: str, name: str | None = None) -> NDArray[np.float64]:
        """The score of all samples so far, ``(repeats, times)``."""
        return np.array([cell.pooled[name or self.score_name] for cell in self._of(policy)])

    def mixture(self, policy: str, name: str | None = None) -> NDArray[np.float64]:
        """The population score of the policy's mixture, ``(repeats, times)``."""
        if not self.plan.options.population:
            raise InputError("the population was not followed: compare with population=True.")
        return np.array([cell.mixture[name or self.score_name] for cell in self._of(policy)])

    def regret(self, policy: str) -> NDArray[np.float64]:
        """``Σ_{s≤t} [L(α_s) − min L]``, ``(repeats, times)``, by trapezoids between the times."""
        return self._regret(policy)[0]

    def _regret(self, policy: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """At the times, and at the end of the warm start."""
        excess = self.mixture(policy, "loss") - self.plan.best.loss
        known = excess > self.plan.best.gap  # what is less may be rounding
        return cumulated(self.times, np.where(known, excess, 0.0), self._warm(policy))

    def counts(self, policy: str) -> NDArray[np.int64]:
        """Samples of each arm, ``(repeats, times, arms)``."""
        return np.array([cell.counts for cell in self._of(policy)])

    def weights(self, policy: str) -> NDArray[np.float64]:
        """Weights of each arm in the policy's mixture, ``(repeats, times, arms)``."""
        return np.array([cell.weights for cell in self._of(policy)])

    def least_share(self, policy: str) -> NDArray[np.float64]:
        """``min_i n_i(t)/t``, ``(repeats, times)``."""
        shares: NDArray[np.float64] = self.counts(policy).min(axis=2) / self.times
        return shares

    def _of(self, policy: str) -> list[Cell]:
        if policy not in self._cells:
            raise InputError(f"{policy!r} was not compared: those are {', '.join(self._cells)}.")
        return self._cells[policy]

    # -- in a few numbers ------------------------------------------------------------------------

    @cached_property
    def outcomes(self) -> dict[str, Outcome]:
        return {policy: self._outcome(policy) for policy in self.policies}

    def _outcome(self, policy: str) -> Outcome:
        follows = self.plan.options.population
        regret, before = self._regret(policy) if follows else (None, None)
        warm = self._warm(policy)
        shares = self.counts(policy)[:, -1] / self.times[-1]
        return Outcome(
            policy,
            pooled=mean_interval(self.pooled(policy)[:, -1]),
            mixture=mean_interval(self.mixture(policy)[:, -1]) if follows else None,
            regret=None if regret is None else mean_interval(regret[:, -1]),
            exponent=None if regret is None else exponent(self.times, regret, warm, before),
            least_share=mean_interval(shares.min(axis=1)),
            locked_out=self._locked_out(policy),
            reached=self._reached(policy) if follows else {},
            shares=dict(zip(self.plan.world.arms, shares.mean(axis=0).tolist(), strict=True)),
            cost=self._cost(shares),
        )

    def _warm(self, policy: str) -> int:
        """Samples of its warm start."""
        variant = self.plan.variants[policy]
        if knows_its_shares(variant):
            return 0
        each = variant.warm_start or self.plan.options.warm_start
        return each * len(self.plan.world.arms)

    def _locked_out(self, policy: str) -> float | None:
        """None where no arm of the optimum is drawn often enough to tell, or the optimum is not known.

        Silent is an arm since the last time read that is not after the middle: all of the second half.
        """
        if not self.plan.options.population:
            return None
        rounds = int(self.times[-1])
        best = np.array(list(self.best_weights.values()))
        needed = np.array([arm in self.plan.best.active for arm in self.plan.world.arms])
        expected = needed & (best * rounds / 2 >= EXPECTED_DRAWS)
        if not expected.any():
            return None
        half = max(int(np.searchsorted(self.times, rounds / 2, side="right")) - 1, 0)
        counts = self.counts(policy)
        silent = counts[:, -1] == counts[:, half]
        return float(np.mean(np.any(silent & expected, axis=1)))

    def _reached(self, policy: str) -> dict[str, float]:
        off = np.abs(self.mixture(policy) - self.best_score)
        at_best = self.mixture(policy, "loss") - self.plan.best.loss <= self.plan.best.gap
        return {
            f"{near:.0%}": _median(
                [
                    settled(self.times, (row <= near * self._scale) | exact)
                    for row, exact in zip(off, at_best, strict=True)
                ]
            )
            for near in NEAR
        }

    @cached_property
    def _scale(self) -> float:
        """What nearness to the best score is measured by.

        The best score itself, where it has a zero. The loss of a sum has none: there it is what is at
        stake, how much more even weights lose or, where those are best, the worst arm alone.
        """
        if self.score_name != "loss":
            return abs(self.best_score)
        best = self.plan.best
        excess = best.function.value(uniform(len(best.weights))) - best.loss
        worst = max(best.single_losses.values()) - best.loss
        return float(excess if excess > best.gap else worst)

    def _cost(self, shares: NDArray[np.float64]) -> Interval | None:
        world = self.plan.world
        if world.costs is None:
            return None
        return mean_interval(shares @ np.array([world.costs[arm] for arm in world.arms]))

    def against(self, policy: str, other: str, t: int | None = None) -> Paired:
        """The pooled score of ``policy`` minus that of ``other`` at the end or at time ``t``, paired."""
        place = self.place_of(t)
        return paired(self.pooled(policy)[:, place], self.pooled(other)[:, place])

    def place_of(self, t: int | None) -> int:
        """Where the first time read stands that is not before ``t``; the end for None."""
        last = int(self.times[-1])
        if t is not None and not 1 <= t <= last:
            raise InputError(f"t is {t}: give a time from 1 to {last}.")
        return len(self.times) - 1 if t is None else int(np.searchsorted(self.times, t))

    def is_better(self, policy: str, other: str, t: int | None = None) -> bool | None:
        """Whether the 95 % interval of the difference says so; None if it holds zero."""
        found = self.against(policy, other, t).difference
        return (found.mean > 0) == self.maximise if found.excludes_zero else None

    # -- tables ----------------------------------------------------------------------------------

    def curve_table(self) -> Table:
        """One row a policy, repeat and time."""
        return [row for policy in self.policies for row in self._curve_rows(policy)]

    def _curve_rows(self, policy: str) -> Table:
        least = self.least_share(policy)
        regret = self.regret(policy) if self.plan.options.population else None
        rows = []
        for repeat, cell in enumerate(self._of(policy)):
            for k, t in enumerate(cell.times):
                row = {"policy": policy, "repeat": repeat, "t": t}
                row |= {f"pooled_{name}": values[k] for name, values in cell.pooled.items()}
                row |= {f"mixture_{name}": values[k] for name, values in cell.mixture.items()}
                if regret is not None:
                    row["regret"] = float(regret[repeat, k])
                rows.append(row | {"least_share": float(least[repeat, k])})
        return rows

    def share_table(self) -> Table:
        """One row a policy, repeat, time and arm."""
        arms = list(self.plan.world.arms)
        return [
            {"policy": policy, "repeat": r, "t": t, "arm": arm, "count": n, "weight": w}
            for policy in self.policies
            for r, cell in enumerate(self._of(policy))
            for t, counts, weights in zip(cell.times, cell.counts, cell.weights, strict=True)
            for arm, n, w in zip(arms, counts, weights, strict=True)
        ]

    def test_table(self) -> Table:
        """Every policy against the first, paired over repeats."""
        first = self.policies[0]
        if self.repeats < 2:
            return []
        rows = []
        for other in self.policies[1:]:
            found = self.against(first, other)
            rows.append(
                {
                    "policy": first,
                    "against": other,
                    "difference": found.difference.mean,
                    "low": found.difference.low,
                    "high": found.difference.high,
                    "p_t": found.t_test,
                    "p_wilcoxon": found.wilcoxon,
                    "better": self.is_better(first, other),
                }
            )
        return rows

    def band_rows(self, what: str = "pooled", policies: Sequence[str] | None = None) -> Table:
        """Means with 95 % bands for a chart of pooled, mixture, regret or least_share.

        They begin with the end of the warm start, before which all policies do the same.
        """
        first = self.plan.options.warm_start * len(self.plan.world.arms)
        shown = self.times >= min(first, self.times[-1])
        rows = []
        for policy in policies or self.policies:
            curves = [part[shown].tolist() for part in bands(getattr(self, what)(policy))]
            rows += [
                {"series": policy, "x": t, "mean": mean, "low": low, "high": high}
                for t, mean, low, high in zip(self.times[shown].tolist(), *curves, strict=True)
            ]
        return rows

    def as_dict(self) -> dict[str, Any]:
        """JSON values: the outcome of every policy, tests, and what it all depends on."""
        found: dict[str, Any] = finite(
            {
                "world": self.plan.world.name,
                "encoder": self.plan.world.encoder,
                "objective": repr(self.objective),
                "score": self.score_name,
                "maximise": self.maximise,
                "repeats": self.repeats,
                "options": vars(self.plan.options),
                "best": self._best() if self.plan.options.population else None,
                "outcomes": {name: asdict(each) for name, each in self.outcomes.items()},
                "tests": self.test_table(),
            }
        )
        return found

    def _best(self) -> dict[str, Any]:
        return {
            "score": self.best_score,
            "weights": self.best_weights,
            "gap": self.plan.best.gap,
            "best_arm": self.plan.best_arm,
        }

    def __str__(self) -> str:
        from genmix.comparison.words import page

        return page(self)

    def _repr_html_(self) -> str:
        from genmix.report.notebook import comparison_html

        return comparison_html(self)

    def save(self, folder: Path | str, figures: bool = True) -> Path:
        """Write summary.json, Parquet tables and, unless told otherwise, the figures."""
        from genmix.comparison.figures import comparison_charts
        from genmix.comparison.tables import write_table

        place = Path(folder)
        make_folder(place)
        sweep(place)
        write_table(place / "curves.parquet", self.curve_table())
        write_table(place / "shares.parquet", self.share_table())
        write_json(place / "summary.json", self.as_dict())
        if figures:
            from genmix import charts

            for name, chart in comparison_charts(self).items():
                charts.save(chart, place / name)
        return place


def _median(times: list[float]) -> float:
    """The middle one, or the later of two: half of them had settled by then."""
    return sorted(times)[len(times) // 2]
