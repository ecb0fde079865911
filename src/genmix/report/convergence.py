"""Assess whether the mixture has converged or would change with more samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from genmix.core.text import counted, number
from genmix.report.facts import EarlierMixture, Facts
from genmix.report.scoring import Term, Values, improvement
from genmix.report.sentences import SAME_SCORE, cause_of_end, fell_short, ran_out

STABLE_WEIGHT = 0.05
"""Weights that stayed within this distance of their final value are considered stable."""

SIMILAR_SCORE = 0.01
"""Scores whose relative difference is smaller than this are considered equally good."""

MIN_SAMPLES = 100
"""With fewer samples, weights that did not change say little."""

NOT_LEARNING = ("uniform", "fixed", "mixture-oracle", "one-arm-oracle")
"""Policies whose weights do not depend on the samples."""

GREEDY = ("mixture-greedy", "mixture-ucbv")
"""Policies whose weights minimize the loss of the samples."""


@dataclass(frozen=True)
class Convergence:
    """The verdict, and the reason for it."""

    verdict: Literal["yes", "no", "unknown"]
    reason: str


def assess_convergence(facts: Facts) -> Convergence:
    if facts.weights is None:
        return Convergence("no", "the warm start is not complete")
    if len(facts.weights) == 1:
        return Convergence("unknown", f"{next(iter(facts.weights))} is the only remaining arm")
    if facts.policy in NOT_LEARNING:
        return Convergence("unknown", f"the {facts.policy} policy does not learn weights")
    if facts.weights_by_group:
        return Convergence("unknown", "every group of prompts has its own mixture")
    if facts.earlier is None:
        return Convergence("unknown", "the run did not record the weights often enough")
    if facts.mixture is None:
        return Convergence("unknown", "the mixture cannot be scored")
    stale = _stale_weights(facts)
    if stale is not None:
        return Convergence("no", stale)
    changes = [_score_change(t, facts.mixture.scores, facts.earlier.scores) for t in facts.terms]
    change = max((each for each in changes if each is not None), default=None)
    found = _compare(facts.earlier, change, facts.samples - facts.earlier.samples)
    doubt = _too_early(facts) if found.verdict == "yes" else None
    return found if doubt is None else Convergence("unknown", doubt)


def _too_early(facts: Facts) -> str | None:
    """Return why stable weights do not mean much: the run is short, or ended before its budget was spent."""
    asked = facts.study["budget"].get("samples")
    if facts.samples < MIN_SAMPLES:
        return f"{facts.samples:,} samples are too few to tell; it takes at least {MIN_SAMPLES}"
    if fell_short(facts):
        return (
            f"the run delivered only {facts.samples:,} of {asked:,} samples, because "
            f"{cause_of_end(facts)}"
        )
    if ran_out(facts):
        return "the run ended before its budget was spent, because every arm ran out of samples"
    if facts.status != "finished":
        return f"the run is not finished ({counted(facts.samples, 'sample')} so far)"
    return None


def _compare(earlier: EarlierMixture, change: float | None, samples: int) -> Convergence:
    """Compare the final mixture with the one ``samples`` samples ago, whose score differs by ``change``."""
    since, moved = f"over the last {samples:,} samples", number(earlier.max_change, 2)
    is_stable = earlier.max_change <= STABLE_WEIGHT
    stable = (
        f"no weight changed {since}"
        if earlier.max_change < SAME_SCORE
        else f"every weight stayed within {moved} of its final value {since}"
    )
    if change is None and is_stable:
        return Convergence("yes", stable)
    if change is not None and (change <= SAME_SCORE or (is_stable and change <= SIMILAR_SCORE)):
        size = "less than 0.1%" if change <= SAME_SCORE else f"{change:.1%}"
        return Convergence(
            "yes",
            f"{stable}, and the mixture from {samples:,} samples ago has a score on all samples that "
            f"differs by {size}",
        )
    effect = "" if change is None else f", which changes the score by {change:.1%}"
    if not is_stable:
        return Convergence("no", f"a weight changed by {moved} {since}{effect}")
    return Convergence("no", f"the weights still changed {since}{effect}")


def _stale_weights(facts: Facts) -> str | None:
    """Return the reason if the weights are out of date and solving again would improve them."""
    if facts.policy not in GREEDY or facts.mixture is None or len(facts.terms) != 1:
        return None
    gain = improvement(facts.terms[0], facts.best_scores, facts.mixture.scores)
    if gain is None or gain <= SIMILAR_SCORE:
        return None
    return f"the weights do not reflect the last samples; solving again would improve the score by {gain:.1%}"


def _score_change(term: Term, now: Values, then: Values) -> float | None:
    if now.get(term.name) is not None and now.get(term.name) == then.get(term.name):
        return 0.0
    change = improvement(term, now, then)
    return None if change is None else abs(change)


def convergence_sentence(facts: Facts) -> str:
    found = assess_convergence(facts)
    start = {
        "yes": "It has converged",
        "no": "It has not converged",
        "unknown": "Whether it has converged is unknown",
    }
    text = f"{start[found.verdict]}: {found.reason}."
    if facts.gap is not None and facts.policy not in NOT_LEARNING:
        within = "" if facts.price_of_money is None else " within the budget"
        if facts.has_weight_limits:
            within = " within the limits"
        which = "the samples of the remaining arms" if facts.has_retired_arms else "these samples"
        text += (
            f" Its loss is at most {number(facts.gap, 2)} above the minimum over all mixtures of {which}"
            f"{within}."
        )
        text += _other_gap(facts.gap, facts.summary_gap)
    return text + _pooled_lag(facts)


def _other_gap(gap: float, at_solve: float | None) -> str:
    """Explain why the gap differs from the one that the terminal shows, if it does."""
    if at_solve is None or number(at_solve, 2) == number(gap, 2):
        return ""
    return (
        f" (The {number(at_solve, 2)} shown at the end of the run is from when the weights were last "
        "computed, before the last samples arrived.)"
    )


def _pooled_lag(facts: Facts) -> str:
    """Explain why all samples together score worse than the mixture, if they do."""
    if facts.mixture is None or not facts.terms or facts.policy in NOT_LEARNING:
        return ""
    term = facts.terms[0]
    gain = improvement(term, facts.mixture.scores, facts.pooled_scores)
    if gain is None or gain <= SIMILAR_SCORE:
        return ""
    return (
        f" All samples together score {number(facts.pooled_scores[term.name])}, because they include "
        "samples that were drawn with other weights."
    )
