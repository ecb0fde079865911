"""The sentences at the top of a report: the mixture, its scores, its cost, and how the run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from genmix.charts.axes import short_name
from genmix.core.text import counted, duration, listed, number, percent
from genmix.diagnosis.thresholds import UNUSED_WEIGHT
from genmix.journal.study_changes import change_in_words, limits_in_words
from genmix.report.baselines import BaselineComparison
from genmix.report.facts import Facts
from genmix.report.frontier import RAISE
from genmix.report.scoring import Term
from genmix.runs.spending.budget import EARLY
from genmix.study.secrets import without_secrets

NEGLIGIBLE = 1e-6
"""A change of the loss that is smaller than this fraction of the score does not count."""

SAME_SCORE = 0.001
"""Scores whose relative difference is smaller than this count as equal."""

UNSPENT = 0.02
"""The share of the money that may be left without an explanation."""

LOOSE = 1.2
"""A bound on the cost of a sample is loose if it is this many times the mean cost."""

MAX_NAMES = 8

PAIR_DETAILS = ("prompts", "prompt entropy", "conditional")
"""Details of the score of pairs: the score and the entropy of the prompts alone, and the quotient."""

LARGE_REST = 0.05
"""Combined weight of the rarely used arms from which on the report mentions it."""

AT_LIMIT = 1e-3
"""A weight this close to a limit has reached it."""


def mixture_sentence(facts: Facts) -> str:
    if facts.weights is None:
        return (
            f"There is no mixture yet: {counted(facts.samples, 'sample')} arrived, but the warm start is "
            "not complete for every arm."
        )
    text = _weights_in_words(facts.weights)
    gone = [arm.label for arm in facts.arms if arm.label not in facts.weights]
    used_up = [arm for arm in gone if arm in facts.exhausted]
    expensive = [arm for arm in gone if arm in facts.unaffordable and arm not in used_up]
    retired = [arm for arm in gone if arm not in (*used_up, *expensive)]
    if retired:
        text += f" It no longer includes {_names(retired)}."
    if used_up:
        text += f" It no longer includes {_names(used_up)}, which ran out of samples."
    if expensive:
        text += f" It does not include {_names(expensive)}, because the cost budget does not cover "
        text += "its warm start." if len(expensive) == 1 else "their warm starts."
    return text


def _weights_in_words(weights: Mapping[str, float]) -> str:
    ranked = sorted(weights.items(), key=lambda item: -item[1])
    used = [(arm, weight) for arm, weight in ranked if weight >= UNUSED_WEIGHT]
    unused = [arm for arm, weight in ranked if weight < UNUSED_WEIGHT]
    if not used:
        arms = counted(sum(weight > 0 for weight in weights.values()), "arm")
        return f"The mixture spreads over {arms}, each with less than {UNUSED_WEIGHT:.1%}."
    shown = [f"{percent(weight)} {arm}" for arm, weight in used[:MAX_NAMES]]
    if len(used) > MAX_NAMES:
        shown.append(f"{len(used) - MAX_NAMES} more arms")
    text = f"The mixture is {listed(shown)}."
    rest = sum(weights[arm] for arm in unused)
    if rest >= LARGE_REST:
        return f"{text} The other {len(unused):,} arms have little weight each, but {percent(rest)} together."
    return f"{text} It hardly uses {_names(unused)}." if unused else text


def limit_sentences(facts: Facts) -> list[str]:
    """Name the study's limits on the weights, and say which of them the mixture reaches."""
    least, most = facts.limits.at_least, facts.limits.at_most
    if not (least or most) or facts.weights is None:
        return []
    low = [arm for arm in least if facts.weights.get(arm, 1.0) <= least[arm] + AT_LIMIT]
    high = [arm for arm in most if facts.weights.get(arm, 0.0) >= most[arm] - AT_LIMIT]
    reached = list(dict.fromkeys([*low, *high]))
    limits = len(least) + len(most)
    which = "does not reach any of them"
    if reached:
        names = listed(reached) if len(reached) <= MAX_NAMES else f"{len(reached)} arms"
        which = f"reaches the {'limit' if len(reached) == 1 else 'limits'} of {names}"
    if limits == 1:
        which = "reaches this limit" if reached else "does not reach this limit"
    return [f"The study asks for {limits_in_words(least, most)}; the mixture {which}."]


def change_sentences(facts: Facts) -> list[str]:
    """Say what was changed during the run, and when."""
    found = []
    for event in facts.changes:
        at = datetime.fromtimestamp(event["at"], UTC).strftime("%B %d, %H:%M UTC")
        subject = "" if event["arm"] is None else f"{event['arm']}: "
        found.append(f"{at}, {subject}{without_secrets(change_in_words(event))}")
    return found


def _names(arms: Sequence[str]) -> str:
    return listed(arms) if len(arms) <= MAX_NAMES else f"{len(arms)} other arms"


def score_sentences(facts: Facts) -> list[str]:
    """Describe the mixture's score for each term, compared with the best arm and equal shares."""
    if facts.mixture is None:
        return []
    found = []
    for term in facts.terms:
        value = number(facts.mixture.scores.get(term.name))
        rest, sets = "", ""
        for baseline, comparison in _baselines(facts):
            before, sets = sets, _sets(comparison)
            rest += _comparison(term, baseline, comparison, "such sets" if before == sets else sets)
        found.append(f"Its {short_name(term.name)} is {value} {term.arrow}.{rest}")
    return found


def pair_sentences(facts: Facts) -> list[str]:
    """Say how many answers each prompt has, if the objective compares pairs of prompt and answer."""
    found = []
    for name, score in facts.summary_scores.items():
        pairs = score.get("value"), *(score["details"].get(key) for key in PAIR_DETAILS)
        if None in pairs:
            continue
        joint, prompts, entropy, answers = (number(float(value)) for value in pairs)
        found.append(
            f"Pairs of prompt and answer have a {short_name(name)} of {joint}; the prompts alone have "
            f"{prompts} (entropy {entropy}). So each prompt has effectively {answers} different answers on "
            f"average (the conditional {short_name(name)})."
        )
    return found


def _comparison(term: Term, baseline: str, found: BaselineComparison, sets: str) -> str:
    ours, theirs = (number(scores.get(term.name)) for scores in (found.mixture, found.baseline))
    return f" In {sets}, it {compared(found.improvement(term))} {baseline} ({ours} vs. {theirs})."


def _sets(found: BaselineComparison) -> str:
    """Describe the sets that are compared, and why they are not larger."""
    sets = f"sets of {found.size:,} samples"
    if found.limit is None:
        return sets
    arm, count = found.limit
    return f"{sets} (a set takes at most half of the {count:,} samples from {arm})"


def _baselines(facts: Facts) -> list[tuple[str, BaselineComparison]]:
    found: list[tuple[str, BaselineComparison]] = []
    if len(facts.weights or ()) < 2:
        return found
    if facts.best_arm is not None and facts.vs_best_arm is not None:
        found.append((f"the best single arm, {facts.best_arm.label}", facts.vs_best_arm))
    if facts.vs_uniform is not None:
        which = " of the remaining arms" if facts.has_retired_arms else ""
        cost = ", which cost more than the budget allows" if facts.is_uniform_too_expensive else ""
        found.append((f"equal shares{which}{cost}", facts.vs_uniform))
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
    text = f"The run generated {counted(facts.samples, 'sample')} in {duration(facts.seconds)}"
    if facts.cost is not None:
        each = facts.cost / facts.samples if facts.samples else 0.0
        text += f" at a cost of {number(facts.cost)} ({number(each)} per sample)"
    if facts.tokens[1]:
        text += f"; {facts.tokens[0]:,} input and {facts.tokens[1]:,} output tokens"
    if facts.failures:
        text += f"; {counted(facts.failures, 'failed attempt')}"
        if not any(arm.given_up for arm in facts.arms):
            text += ", all repeated with success"
    return f"{text}."


def fell_short(facts: Facts) -> bool:
    """Return whether the run finished with fewer samples than the study asked for."""
    asked = facts.study["budget"].get("samples")
    is_early = str(facts.reason).startswith(EARLY)
    return (
        facts.status == "finished" and asked is not None and facts.samples < asked and not is_early
    )


def ran_out(facts: Facts) -> bool:
    """Return whether the run ended because every arm had run out of samples."""
    return "every arm has run out of samples" in str(facts.reason)


def money_sentences(facts: Facts) -> list[str]:
    """Say what more money would be worth, if the study limits both the cost and the number of samples."""
    limit, price, frontier = facts.budget_per_sample, facts.price_of_money, facts.frontier
    if limit is None or frontier is None or facts.status != "finished":
        return []
    text = f"The budget allows a mean cost of {number(limit)} per sample"
    if frontier.budget is None or frontier.raised is None:
        return [f"{text}, which is less than the cheapest mixture costs."]
    if price is None:
        return []
    if price * limit * RAISE < NEGLIGIBLE * abs(frontier.budget.score):
        within = " within the limits on the weights" if facts.has_weight_limits else ""
        return [
            f"{text}, which does not limit the mixture: more money would not improve it{within}."
        ]
    name = short_name(frontier.name)
    return [
        f"{text}. With {percent(RAISE)} more, the best mixture would have the {name} "
        f"{number(frontier.raised.score)} instead of {number(frontier.budget.score)}. The price of money: "
        f"one more unit of cost per sample would reduce the loss by {number(price, 3)}, as long as the "
        "change is small.",
        *_unspent(facts),
    ]


def _unspent(facts: Facts) -> list[str]:
    """Say why money is left although it would have improved the mixture, if reservations are the cause."""
    total = facts.study["budget"]["cost"]
    left = total - (facts.cost or 0.0)
    if left < UNSPENT * total:
        return []
    for arm, weight in sorted((facts.weights or {}).items(), key=lambda item: -item[1]):
        mean, most = facts.limits.cost_of(arm, facts.spent), facts.limits.prices.get(arm, 0.0)
        if weight >= UNUSED_WEIGHT and mean and mean <= left and most > LOOSE * mean:
            settings = facts.study["arms"].get(arm, {})
            key = next((k for k in ("max_tokens", "price") if settings.get(k) is not None), None)
            advice = "" if key is None else f" To spend more of it, lower its {key}."
            return [
                f"{percent(left / total)} of the money is left, because a sample is drawn only if the money "
                f"covers its largest possible cost: a sample from {arm} costs {number(mean)} on average, but "
                f"can cost up to {number(most)}.{advice}"
            ]
    return []


def status_sentence(facts: Facts) -> str:
    asked, reason = facts.study["budget"], facts.reason
    if fell_short(facts):
        limit = "" if asked.get("cost") is None else f" for at most {number(asked['cost'])}"
        return (
            f"The run fell short: the study asked for {asked['samples']:,} samples{limit}, and the run "
            f"delivered {facts.samples:,}, because {cause_of_end(facts)}."
        )
    if (
        facts.status == "finished"
        and facts.budget_per_sample is not None
        and facts.cost is not None
    ):
        return (
            f"The run finished: it delivered {counted(facts.samples, 'sample')} for {number(facts.cost)}; "
            f"the study asked for {asked['samples']:,} for at most {number(asked['cost'])}."
        )
    if facts.status == "unfinished":
        status = "is still in progress" if facts.is_running else "was killed"
        return f"The run {status}. This report shows its state at the time of writing."
    ended = {
        "finished": "The run finished",
        "interrupted": "The run was interrupted",
        "trouble": "The run stopped early",
    }
    words = "" if reason == facts.status else f": {reason}"
    return f"{ended[facts.status]}{words}."


def cause_of_end(facts: Facts) -> str:
    """Return why the run ended; an arm that ran out of samples is part of it."""
    reason = str(facts.reason)
    if not facts.exhausted or ran_out(facts):
        return reason
    return f"{reason} ({_names(facts.exhausted)} ran out of samples)"
