"""The sentences at the top of a report: the mixture, its scores, its cost, and how the run ended."""

from __future__ import annotations

from collections.abc import Sequence

from genmix.charts.axes import short_name
from genmix.core.text import duration, listed, number, percent
from genmix.diagnosis.thresholds import UNUSED_WEIGHT
from genmix.report.baselines import BaselineComparison
from genmix.report.facts import Facts
from genmix.report.scoring import Term

SAME_SCORE = 0.001
"""Scores whose relative difference is smaller than this count as equal."""

MAX_NAMES = 8


def mixture_sentence(facts: Facts) -> str:
    if facts.weights is None:
        return (
            f"There is no mixture yet: {facts.samples:,} samples have arrived, but the warm start is "
            "not complete for every arm."
        )
    ranked = sorted(facts.weights.items(), key=lambda item: -item[1])
    used = [(arm, weight) for arm, weight in ranked if weight >= UNUSED_WEIGHT]
    unused = [arm for arm, weight in ranked if weight < UNUSED_WEIGHT]
    shown = [f"{percent(weight)} {arm}" for arm, weight in used[:MAX_NAMES]]
    if len(used) > MAX_NAMES:
        shown.append(f"{len(used) - MAX_NAMES} more arms")
    text = f"The mixture is {listed(shown)}."
    if unused:
        text += f" It hardly uses {_names(unused)}."
    retired = [arm.label for arm in facts.arms if arm.label not in facts.weights]
    if retired:
        text += f" It no longer includes {_names(retired)}."
    return text


def _names(arms: Sequence[str]) -> str:
    return listed(arms) if len(arms) <= MAX_NAMES else f"{len(arms)} other arms"


def score_sentences(facts: Facts) -> list[str]:
    """Describe the mixture's score for each term, compared with the best arm and a uniform mixture."""
    if facts.mixture is None:
        return []
    found = []
    for term in facts.terms:
        value = number(facts.mixture.scores.get(term.name))
        rest = [f" {_comparison(term, *pair)}" for pair in _baselines(facts)]
        found.append(f"Its {short_name(term.name)} is {value} {term.arrow}.{''.join(rest)}")
    return found


def _comparison(term: Term, baseline: str, found: BaselineComparison) -> str:
    ours, theirs = (number(scores.get(term.name)) for scores in (found.mixture, found.baseline))
    return (
        f"In sets of {found.size:,} samples, it {compared(found.improvement(term))} {baseline} "
        f"({ours} vs. {theirs})."
    )


def _baselines(facts: Facts) -> list[tuple[str, BaselineComparison]]:
    found: list[tuple[str, BaselineComparison]] = []
    if len(facts.weights or ()) < 2:
        return found
    if facts.best_arm is not None and facts.vs_best_arm is not None:
        found.append((f"the best single arm, {facts.best_arm.label}", facts.vs_best_arm))
    if facts.vs_uniform is not None:
        which = " of the remaining arms" if facts.has_retired_arms else ""
        found.append((f"a uniform mixture{which}", facts.vs_uniform))
    return found


def compared(share: float | None) -> str:
    """Return the verb phrase for a relative improvement."""
    if share is None:
        return "compares with"
    if abs(share) < SAME_SCORE / 2:
        return "cannot be distinguished from"
    return f"is {percent_size(share)} {'better' if share > 0 else 'worse'} than"


def percent_size(share: float) -> str:
    """Format the absolute value of a share in percent, to two significant digits."""
    size = 100 * abs(share)
    return f"{size:.2g}%" if size < 10 else f"{size:,.0f}%"


def cost_sentence(facts: Facts) -> str:
    text = f"The run generated {facts.samples:,} samples in {duration(facts.seconds)}"
    if facts.cost is not None:
        each = facts.cost / facts.samples if facts.samples else 0.0
        text += f" at a cost of {number(facts.cost)} ({number(each)} per sample)"
    if facts.tokens[1]:
        text += f"; {facts.tokens[0]:,} input and {facts.tokens[1]:,} output tokens"
    if facts.failures:
        text += f"; {facts.failures:,} failed attempts"
    return f"{text}."


def status_sentence(facts: Facts) -> str:
    if facts.status == "unfinished":
        status = "is still in progress" if facts.is_running else "was killed"
        return f"The run {status}. This report shows its state at the time of writing."
    ended = {
        "finished": "The run finished",
        "interrupted": "The run was interrupted",
        "trouble": "The run stopped early",
    }
    reason = "" if facts.reason == facts.status else f": {facts.reason}"
    return f"{ended[facts.status]}{reason}."
