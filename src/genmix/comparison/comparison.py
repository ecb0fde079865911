"""The result of a comparison: curves, outcomes, paired tests, tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.comparison.outcome import Evaluation, Outcome
from genmix.comparison.plan import Plan
from genmix.comparison.statistics import LEVEL, Paired, bands, holm, paired
from genmix.comparison.trial import Trial
from genmix.comparison.variant import find_label
from genmix.core.atomic import make_folder, sweep, write_json, write_parquet
from genmix.core.plain import finite
from genmix.errors import InputError
from genmix.objectives import Objective
from genmix.offline.grouped import GroupedMixture
from genmix.policies import label_of

Table = list[dict[str, Any]]


class Comparison:
    """The result of :func:`genmix.compare`.

    ``print`` shows a table, :meth:`save` writes tables and figures, and other methods return the
    underlying curves. All curves have the shape ``(repeats, times)`` and are recorded at :attr:`times`.
    Methods accept the labels in :attr:`policies`, and the names that studies have for the policies.

    Parameters
    ----------
    plan : Plan
        What was compared.
    trials : sequence of Trial
        Every trial of the plan.

    Attributes
    ----------
    plan : Plan
        What was compared: the world, the objective, the variants and the options.

    Examples
    --------
    >>> import genmix as gx
    >>> import numpy as np
    >>> arms = {"a": np.eye(4)[:2], "b": np.eye(4)[2:]}
    >>> result = gx.compare(
    ...     arms, ["uniform", "one-arm-oracle"], 4, objective=gx.Vendi(), budget=100, workers=1
    ... )
    >>> result.policies
    ('Uniform', 'One-arm oracle')
    >>> result.is_better("uniform", "one-arm-oracle")
    True
    >>> result.pooled("Uniform").shape == (4, len(result.times))
    True
    """

    def __init__(self, plan: Plan, trials: Sequence[Trial]) -> None:
        self.plan = plan
        self._trials = {label: [t for t in trials if t.label == label] for label in plan.variants}
        self._evaluation = Evaluation(self)

    # -- what was compared -----------------------------------------------------------------------

    @property
    def policies(self) -> tuple[str, ...]:
        """Labels of the policies; the first is tested against the others."""
        return tuple(self._trials)

    def named(self, policy: str) -> str:
        """Return the label of a policy with its remark, e.g. "Mixture-UCB (extended)".

        Parameters
        ----------
        policy : str
            A label from :attr:`policies`.

        Returns
        -------
        str
        """
        variant = self.plan.variants[policy]
        if variant.policy is None:
            return policy
        return label_of(policy, variant.policy.remark(variant.objective or self.objective))

    @property
    def repeats(self) -> int:
        """Paired trials per policy."""
        return self.plan.repeats

    @property
    def objective(self) -> Objective:
        """The objective used to score all policies."""
        return self.plan.objective

    @property
    def score_name(self) -> str:
        """The score used to compare policies; the loss for a sum of objectives."""
        return "loss" if self.plan.objective.name == "sum" else self.plan.objective.name

    @property
    def maximise(self) -> bool:
        """Whether a higher score is better."""
        return self.score_name != "loss" and self.plan.objective.maximise

    @property
    def times(self) -> NDArray[np.int64]:
        """Sample counts at which curves are recorded."""
        return self.plan.times

    @cached_property
    def best_score(self) -> float:
        """The population score of the best mixture."""
        best = self.plan.best
        return best.loss if self.score_name == "loss" else float(best.score)  # type: ignore[arg-type]

    @property
    def best_weights(self) -> dict[str, float]:
        """The best mixture of the population; with prompts, the mean over their groups."""
        return self.plan.best.weights

    @property
    def best_for_all(self) -> float | None:
        """The population score of the best mixture that is the same for all prompts; None without prompts."""
        best = self.plan.best
        if not isinstance(best, GroupedMixture):
            return None
        found = best.one_for_all
        return found.loss if self.score_name == "loss" else float(found.score)  # type: ignore[arg-type]

    # -- curves ----------------------------------------------------------------------------------

    def pooled(self, policy: str, name: str | None = None) -> NDArray[np.float64]:
        """Return the score of all samples so far.

        Parameters
        ----------
        policy : str
            A label from :attr:`policies`.
        name : str, optional
            A term of the objective, or "loss"; by default :attr:`score_name`.

        Returns
        -------
        array, shape (repeats, times)
        """
        return np.array([trial.pooled[name or self.score_name] for trial in self._of(policy)])

    def mixture(self, policy: str, name: str | None = None) -> NDArray[np.float64]:
        """Return the population score of the policy's mixture.

        Parameters
        ----------
        policy : str
            Label of the policy.
        name : str, optional
            As in :meth:`pooled`.

        Returns
        -------
        array, shape (repeats, times)

        Raises
        ------
        InputError
            If the comparison ran with ``population=False``.
        """
        if not self.plan.options.population:
            raise InputError("population scores were not recorded; compare with population=True.")
        return np.array([trial.mixture[name or self.score_name] for trial in self._of(policy)])

    def regret(self, policy: str) -> NDArray[np.float64]:
        """Return the regret ``Σ_{s≤t} [L(α_s) − min L]``, using trapezoids between recorded times.

        Parameters
        ----------
        policy : str
            Label of the policy.

        Returns
        -------
        array, shape (repeats, times)
        """
        return self._evaluation.regret(find_label(policy, self.plan.variants))[0]

    def counts(self, policy: str) -> NDArray[np.int64]:
        """Return the number of samples from each arm.

        Parameters
        ----------
        policy : str
            Label of the policy.

        Returns
        -------
        array, shape (repeats, times, arms)
        """
        return np.array([trial.counts for trial in self._of(policy)])

    def weights(self, policy: str) -> NDArray[np.float64]:
        """Return the policy's mixture.

        Parameters
        ----------
        policy : str
            Label of the policy.

        Returns
        -------
        array, shape (repeats, times, arms)
        """
        return np.array([trial.weights for trial in self._of(policy)])

    def least_share(self, policy: str) -> NDArray[np.float64]:
        """Return the smallest share of any arm, ``min_i n_i(t)/t``.

        Parameters
        ----------
        policy : str
            Label of the policy.

        Returns
        -------
        array, shape (repeats, times)
        """
        shares: NDArray[np.float64] = self.counts(policy).min(axis=2) / self.times
        return shares

    def _of(self, policy: str) -> list[Trial]:
        return self._trials[find_label(policy, self.plan.variants)]

    # -- outcomes and tests ----------------------------------------------------------------------

    @cached_property
    def outcomes(self) -> dict[str, Outcome]:
        """Final scores, regret, exploration and cost of every policy."""
        return {policy: self._evaluation.outcome(policy) for policy in self.policies}

    def against(self, policy: str, other: str, t: int | None = None) -> Paired:
        """Compare the pooled scores of two policies, ``policy`` minus ``other``, paired over repeats.

        Parameters
        ----------
        policy, other : str
            Labels from :attr:`policies`.
        t : int, optional
            The first recorded time that is at least ``t``; by default the last.

        Returns
        -------
        Paired
            The mean difference with its 95% interval, and the p-values of a paired t-test and a
            Wilcoxon signed-rank test.

        Raises
        ------
        InputError
            If there is only one repeat, or ``t`` is outside the run.
        """
        place = self.place_of(t)
        return paired(self.pooled(policy)[:, place], self.pooled(other)[:, place])

    def place_of(self, t: int | None) -> int:
        """Return the index of the first recorded time that is at least ``t``, or of the last if None."""
        last = int(self.times[-1])
        if t is not None and not 1 <= t <= last:
            raise InputError(f"t is {t}; pass a time from 1 to {last}.")
        return len(self.times) - 1 if t is None else int(np.searchsorted(self.times, t))

    def is_better(self, policy: str, other: str, t: int | None = None) -> bool | None:
        """Return whether ``policy`` scores better than ``other`` according to :meth:`against`.

        Parameters
        ----------
        policy, other : str
            Labels of the policies.
        t : int, optional
            Number of samples; by default the budget.

        Returns
        -------
        bool or None
            None if the 95% interval of the difference contains zero.
        """
        found = self.against(policy, other, t).difference
        return (found.mean > 0) == self.maximise if found.excludes_zero else None

    # -- tables ----------------------------------------------------------------------------------

    def curve_table(self) -> Table:
        """Return one row per policy, repeat and time."""
        return [row for policy in self.policies for row in self._curve_rows(policy)]

    def _curve_rows(self, policy: str) -> Table:
        least = self.least_share(policy)
        regret = self.regret(policy) if self.plan.options.population else None
        rows = []
        for repeat, trial in enumerate(self._of(policy)):
            for k, t in enumerate(trial.times):
                row = {"policy": policy, "repeat": repeat, "t": t}
                row |= {f"pooled_{name}": values[k] for name, values in trial.pooled.items()}
                row |= {f"mixture_{name}": values[k] for name, values in trial.mixture.items()}
                if regret is not None:
                    row["regret"] = float(regret[repeat, k])
                rows.append(row | {"least_share": float(least[repeat, k])})
        return rows

    def share_table(self) -> Table:
        """Return one row per policy, repeat, time and arm."""
        return [
            {"policy": policy, "repeat": r, "t": t, "arm": arm, "count": n, "weight": w}
            for policy in self.policies
            for r, trial in enumerate(self._of(policy))
            for t, counts, weights in zip(trial.times, trial.counts, trial.weights, strict=True)
            for arm, n, w in zip(self.plan.arms, counts, weights, strict=True)
        ]

    def test_table(self) -> Table:
        """Test the first policy against each of the others, paired over repeats.

        ``better`` is None unless the t-test is significant after Holm's correction for the number of rows.
        """
        first, *others = self.policies
        tests = [self.against(first, other) for other in others] if self.repeats > 1 else []
        adjusted = holm([found.t_test for found in tests])
        return [
            {
                "policy": first,
                "against": other,
                "difference": found.difference.mean,
                "low": found.difference.low,
                "high": found.difference.high,
                "p_t": found.t_test,
                "p_wilcoxon": found.wilcoxon,
                "p_holm": p,
                "better": (found.difference.mean > 0) == self.maximise if p < 1 - LEVEL else None,
            }
            for other, found, p in zip(others, tests, adjusted, strict=False)
        ]

    def band_rows(self, what: str = "pooled", policies: Sequence[str] | None = None) -> Table:
        """Return the means and 95% bands of a curve, for a chart.

        Rows begin at the end of the warm start, because all policies behave the same until then.

        Parameters
        ----------
        what : {"pooled", "mixture", "regret", "least_share"}, default "pooled"
            The curve.
        policies : sequence of str, optional
            Labels of the policies; by default all.

        Returns
        -------
        list of dict
            Rows with the keys ``series``, ``x``, ``mean``, ``low`` and ``high``.
        """
        first = self.plan.options.warm_start * len(self.plan.arms)
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
        """Return outcomes, tests and settings as JSON values."""
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
        best = self.plan.best
        found = {
            "score": self.best_score,
            "weights": self.best_weights,
            "gap": best.gap,
            "best_arm": self.plan.best_arm,
        }
        if isinstance(best, GroupedMixture):
            found["weights_by_group"] = best.weights_by_group
            found["one_for_all"] = {"score": self.best_for_all, "weights": self.plan.best_for_all}
        return found

    def __str__(self) -> str:
        from genmix.comparison.presentation import page

        return page(self)

    def _repr_html_(self) -> str:
        from genmix.report.notebook_repr import comparison_html

        return comparison_html(self)

    def save(self, folder: Path | str, figures: bool = True) -> Path:
        """Write curves.parquet, shares.parquet, summary.json and the figures (PDF and PNG).

        Parameters
        ----------
        folder : path
            The folder to write to; created if necessary.
        figures : bool, default True
            Whether to write the figures.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        StorageError
            If a file cannot be written.
        """
        place = Path(folder)
        make_folder(place)
        sweep(place)
        write_parquet(place / "curves.parquet", self.curve_table())
        write_parquet(place / "shares.parquet", self.share_table())
        write_json(place / "summary.json", self.as_dict())
        if figures:
            from genmix import charts
            from genmix.comparison.presentation import comparison_charts

            for name, chart in comparison_charts(self).items():
                charts.save(chart, place / name)
        return place
