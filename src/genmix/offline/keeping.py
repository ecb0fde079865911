"""Keep the best samples and say what it changed: scores, bound, fidelity. For commands and runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genmix.core.arrays import Array
from genmix.core.plain import by_name, finite, plain_scores
from genmix.core.streams import private_stream
from genmix.core.text import counted, number, percent
from genmix.errors import InputError
from genmix.objectives import RKE, Batch, Cost, Objective, QualityVendi, Scores, Sum, Vendi
from genmix.offline.fidelity import Change, Fidelity, measure_fidelity, reference_points
from genmix.offline.keep import Kept, are_few, is_reached, keep, rows_of, set_scores
from genmix.solvers.subset import SubsetProgress
from genmix.solvers.subsets import Indices

NEAR = 0.02
"""A bound is nearly reached if the gap is at most this fraction of the distance to random sets."""

DRAWS = 5
"""Number of random sets of the same size whose scores are averaged."""

ADVICE = "diversity alone prefers outliers; add a term for fidelity to the objective"


@dataclass(frozen=True)
class Rules:
    """How many samples to keep, and which may be kept.

    Attributes
    ----------
    samples : int, optional
        Number of samples to keep.
    share : float, optional
        Share of all samples to keep, instead of their number.
    min_quality : float, optional
        Only samples of at least this quality are kept.
    """

    samples: int | None = None
    share: float | None = None
    min_quality: float | None = None

    def __str__(self) -> str:
        amount = f"{self.samples:,}" if self.share is None else percent(self.share)
        least = self.min_quality
        return f"the best {amount} of the samples" + (
            "" if least is None else f", chosen from those with a quality of at least {least:g}"
        )

    def count(self, size: int) -> int:
        """Return how many of ``size`` samples to keep, regardless of their quality."""
        if self.samples is not None:
            return self.samples
        return max(1, round((self.share or 0.0) * size))

    def candidates(self, batch: Batch) -> Indices:
        """Return the samples that may be kept."""
        if self.min_quality is None:
            return np.arange(len(batch))
        if batch.quality is None:
            raise InputError(
                "a minimum quality was set, but not every sample has a quality; remove the minimum, or add "
                "the quality."
            )
        found = np.flatnonzero(np.asarray(batch.quality) >= self.min_quality)
        if not len(found):
            best = float(np.max(batch.quality))
            raise InputError(
                f"no sample has a quality of at least {self.min_quality:g}; the best one has {best:g}, so "
                "lower the minimum."
            )
        return found


@dataclass(frozen=True)
class Baselines:
    """What a kept set is compared with; nothing here depends on which samples are kept."""

    batch: Batch
    objective: Objective
    """With its bandwidths fixed."""
    count: int
    encoder: str | None
    all_scores: Scores
    random_scores: tuple[Scores, ...]
    random_loss: float
    """Mean loss of the random sets."""
    fidelity: Fidelity

    @classmethod
    def of(
        cls,
        batch: Batch,
        objective: Objective,
        count: int,
        *,
        reference: Array | None = None,
        encoder: str | None = None,
        seed: int = 0,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Baselines:
        """Score all samples and random sets of ``count``, and measure the fidelity of every sample.

        ``progress`` is called with the number of finished scores and their total.

        Raises
        ------
        InputError
            If ``count`` is too small for the objective.
        """
        if count < objective.least_samples:
            raise InputError(
                f"only {counted(count, 'sample')} would be kept, but the objective needs at least "
                f"{objective.least_samples}; keep more, or lower the minimum quality."
            )
        fixed = objective.fix_bandwidths([batch.embeddings])
        rng = private_stream(seed, "random sets")
        draws = [np.sort(rng.permutation(len(batch))[:count]) for _ in range(DRAWS)]
        random = []
        for draw in draws:
            random.append(set_scores(fixed, rows_of(batch, draw), encoder))
            progress(len(random), DRAWS + 1)
        all_scores = set_scores(fixed, batch, encoder)[1]
        progress(DRAWS + 1, DRAWS + 1)
        points = reference_points(fixed) if reference is None else reference
        return cls(
            batch,
            fixed,
            count,
            encoder,
            all_scores,
            tuple(scores for _, scores in random),
            float(np.mean([loss for loss, _ in random])),
            measure_fidelity(batch, points, seed),
        )

    def keep(
        self,
        candidates: Indices,
        *,
        arms: Sequence[str] | None = None,
        at_least: int | None = None,
        seed: int = 0,
        progress: Callable[[SubsetProgress], None] | None = None,
    ) -> Selection:
        """Keep the best of these samples; ``at_least`` is the smallest number to keep per arm."""
        part = rows_of(self.batch, candidates)
        has_groups = at_least is not None and arms is not None
        found = keep(
            part.embeddings,
            self.count,
            self.objective,
            quality=part.quality,
            cost=part.cost,
            groups=[arms[i] for i in candidates] if has_groups and arms is not None else None,
            at_least=at_least if has_groups else None,
            seed=seed,
            progress=progress,
            encoder=self.encoder,
        )
        kept = candidates[found.indices]
        dropped = np.setdiff1d(np.arange(len(self.batch)), kept)
        return Selection(self, replace(found, indices=kept, dropped=dropped), len(candidates))


@dataclass(frozen=True)
class Selection:
    """Kept samples, compared with all samples and with random sets of the same size."""

    baselines: Baselines
    kept: Kept
    candidates: int
    """Number of samples that may be kept."""

    @property
    def changes(self) -> list[Change]:
        return self.baselines.fidelity.changes(self.kept.indices)

    @property
    def warnings(self) -> list[str]:
        """What fell by more than the noise, one sentence each."""
        count, against = len(self.kept.indices), self.baselines.fidelity.compared_with
        return [each.warning(count, against) for each in self.changes if each.is_fall]

    @property
    def random(self) -> dict[str, dict[str, float]]:
        """Mean and standard deviation of the scores of random sets, by name."""
        columns: dict[str, list[float]] = {}
        for scores in self.baselines.random_scores:
            for name, score in by_name(scores).items():
                columns.setdefault(name, []).append(float(score))
        return {
            name: {"mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1))}
            for name, values in columns.items()
        }

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the samples as JSON values."""
        kept = self.kept
        found = {
            "objective": str(kept.objective),
            "samples": len(self.baselines.batch),
            "candidates": self.candidates,
            "count": len(kept.indices),
            "has_counts": kept.has_counts,
            "scores": plain_scores(kept.score),
            "all_scores": plain_scores(self.baselines.all_scores),
            "random_scores": self.random,
            "random_loss": self.baselines.random_loss,
            "random_draws": DRAWS,
            "bound": kept.bound,
            "loss": kept.loss,
            "loss_bound": kept.loss_bound,
            "gap": kept.gap,
            "is_bound_tight": kept.is_bound_tight,
            "directions": kept.directions,
            "interrupted": kept.interrupted,
            "compared_with": self.baselines.fidelity.compared_with,
            "measures": {
                each.name: {
                    "kept": each.kept,
                    "dropped": each.dropped,
                    "all": each.all,
                    "noise": each.noise,
                    "is_fall": each.is_fall,
                }
                for each in self.changes
            },
            "warnings": self.warnings,
            "advice": advice_for(kept.objective) if self.warnings else None,
        }
        plain: dict[str, Any] = finite(found)
        return plain


def advice_for(objective: Objective) -> str | None:
    """Return what to do if keeping reduced fidelity; None if the objective is not about diversity."""
    terms = [each for _, each in objective.terms] if isinstance(objective, Sum) else [objective]
    if not any(isinstance(each, Vendi | RKE | QualityVendi) for each in terms):
        return None
    if all(isinstance(each, Vendi | RKE | Cost) for each in terms):
        return ADVICE
    return "give the terms for fidelity more weight in the objective" if len(terms) > 1 else None


def bound_sentence(found: dict[str, Any]) -> str:
    """Say what the bound of ``Selection.as_dict`` means, and whether it is tight."""
    count = found["count"]
    if all(found[key] is None for key in ("bound", "loss_bound", "directions")):
        return "The search was interrupted before a bound was known."
    text = f"No other choice of {counted(count, 'sample')}{_conditions(found)} "
    if found["bound"] is not None:
        text += f"scores better than {found['bound']:.6g}."
    else:
        loss, least = (_shown(found[key]) for key in ("loss", "loss_bound"))
        text += f"has a loss below {least}; the kept samples have {loss}."
    values = [score["value"] for score in found["scores"].values()]
    if is_reached(found["gap"], found["loss"], values, found["bound"]):
        return f"{text} The kept samples reach this bound."
    gap, away = _distances(found)
    if found["directions"] is None:
        return f"{text} The search was interrupted before a better bound was known."
    if found.get("interrupted"):
        return (
            f"{text} The kept samples are {number(gap, 2)} away from this bound; the search was "
            "interrupted."
        )
    if gap is not None and away is not None and gap <= NEAR * away:
        return f"{text} This bound is tight: it is nearly reached."
    if found["is_bound_tight"]:
        text += f" The kept samples are {number(gap, 2)} away from this bound"
        others = f"; random sets are {number(away, 2)} away from the kept samples" if away else ""
        return f"{text}{others}."
    return (
        f"{text} This bound is loose, because {are_few(count)} for the "
        f"{counted(found['directions'], 'direction')} in which the samples vary. The kept samples are "
        "usually much closer to the best set than this bound suggests."
    )


def _conditions(found: dict[str, Any]) -> str:
    """Say which choices the bound applies to, unless it applies to all."""
    is_limited = found.get("candidates", found.get("samples")) != found.get("samples")
    quality = " of sufficient quality" if is_limited else ""
    return quality + (" that satisfies the counts per arm" if found.get("has_counts") else "")


def _distances(found: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return how far the kept samples are from the bound and from random sets; None if unknown.

    Distances are in units of the score, or of the loss for a sum.
    """
    if found["bound"] is None:
        here, drawn, bound = found["loss"], found.get("random_loss"), found["loss_bound"]
    else:
        [(name, score)] = found["scores"].items()
        here, drawn, bound = score["value"], found["random_scores"][name]["mean"], found["bound"]
    known = (
        None if value is None or here is None else abs(here - value) for value in (bound, drawn)
    )
    gap, away = known
    return gap, away


def _shown(value: float | None) -> str:
    return "infinity" if value is None else f"{value:.6g}"
