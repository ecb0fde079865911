"""What a user came for, in sentences: the mixture, its worth, whether it has converged, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from genmix.charts.names import short_name
from genmix.core.text import duration, listed, number, percent
from genmix.report.facts import Arm, Facts, Term, Values
from genmix.report.baselines import Rival

SURE = 2.0
"""Standard deviations by which a difference must exceed chance to be called one."""

STILL = 0.05
"""Weights that stayed within this of where they are have settled."""

NEAR = 0.01
"""A score that differs by less, relatively, is as good."""

SAME = 0.001
"""A score that differs by less, relatively, is the same."""

NEGLIGIBLE = 0.005
"""An arm with less weight has none."""

OFTEN = 0.1
"""Failures in more than this share of the attempts are worth a look."""

NOT_LEARNING = ("uniform", "fixed", "mixture-oracle", "one-arm-oracle")


@dataclass(frozen=True)
class Settled:
    """Whether the mixture has settled, and why we say so."""

    verdict: Literal["yes", "no", "unknown"]
    why: str


@dataclass(frozen=True)
class Step:
    """Something to do next."""

    kind: Literal["failed", "resume", "wait", "budget", "look", "drop", "single", "use"]
    words: str


# -- numbers -----------------------------------------------------------------------------------------


def gain(term: Term, mine: Values, other: Values) -> float | None:
    """By how much mine is better, relatively; negative if it is worse."""
    a, b = mine.get(term.name), other.get(term.name)
    if a is None or b is None or b == 0:
        return None
    return (a - b) / abs(b) * (1 if term.maximise else -1)


def told_apart(term: Term, rival: Rival) -> float | None:
    """By how much the mixture is better, relatively, as far as that is more than chance; 0 if it is not."""
    mine, other, spread = (
        values.get(term.name) for values in (rival.mixture, rival.other, rival.spread)
    )
    if mine is None or other is None or spread is None:
        return None
    return gain(term, rival.mixture, rival.other) if abs(mine - other) > SURE * spread else 0.0


def compared(share: float | None) -> str:
    """How much better, before the name of what it is compared with."""
    if share is None:
        return "stands beside"
    if abs(share) < SAME / 2:
        return "cannot be told from"
    return f"is {size_of(share)} % {'better' if share > 0 else 'worse'} than"


def size_of(share: float) -> str:
    """A share in percent, with two digits that count."""
    size = 100 * abs(share)
    return f"{size:.2g}" if size < 10 else f"{size:,.0f}"


# -- the top of the page -----------------------------------------------------------------------------


def mixture_words(facts: Facts) -> str:
    if facts.weights is None:
        return (
            f"There is no mixture yet: {facts.samples:,} samples have come, and the warm start of every "
            "arm is not complete."
        )
    ranked = sorted(facts.weights.items(), key=lambda item: -item[1])
    used = [(arm, weight) for arm, weight in ranked if weight >= NEGLIGIBLE]
    idle = [arm for arm, weight in ranked if weight < NEGLIGIBLE]
    shown = [f"{percent(weight)} {arm}" for arm, weight in used[:8]]
    if len(used) > 8:
        shown.append(f"{len(used) - 8} more arms")
    words = f"The mixture: {listed(shown)}."
    if idle:
        words += f" Next to nothing of {_named(idle)}."
    out = [arm.label for arm in facts.arms if arm.label not in facts.weights]
    if out:
        words += f" Out of it at the end: {_named(out)}."
    return words


def _named(arms: Sequence[str]) -> str:
    return listed(arms) if len(arms) <= 8 else f"{len(arms)} others"


def score_words(facts: Facts) -> list[str]:
    """The mixture, and beside it the best arm alone and all arms evenly, for every score."""
    if facts.mixture is None:
        return []
    found = []
    for term in facts.terms:
        arrow = "↑" if term.maximise else "↓"
        value = number(facts.mixture.scores.get(term.name))
        rest = [f" {_duel(term, what, rival)}" for what, rival in _rivals(facts)]
        found.append(f"It scores {short_name(term.name)} {value} {arrow}.{''.join(rest)}")
    return found


def _duel(term: Term, what: str, rival: Rival) -> str:
    mine, other = (number(values.get(term.name)) for values in (rival.mixture, rival.other))
    return (
        f"In sets of {rival.size:,} samples it {compared(told_apart(term, rival))} {what} "
        f"({mine} against {other})."
    )


def _rivals(facts: Facts) -> list[tuple[str, Rival]]:
    found: list[tuple[str, Rival]] = []
    if len(facts.weights or ()) < 2:
        return found
    if facts.best_arm is not None and facts.against_best_arm is not None:
        found.append((f"the best arm alone, {facts.best_arm.label}", facts.against_best_arm))
    if facts.against_even is not None:
        whose = " of the arms still drawn from" if facts.has_leavers else ""
        found.append((f"an even mixture{whose}", facts.against_even))
    return found


def cost_words(facts: Facts) -> str:
    words = f"{facts.samples:,} samples in {duration(facts.seconds)}"
    if facts.cost is not None:
        each = facts.cost / facts.samples if facts.samples else 0.0
        words += f" at a cost of {number(facts.cost)}, {number(each)} a sample"
    if facts.tokens[1]:
        words += f"; {facts.tokens[0]:,} tokens in and {facts.tokens[1]:,} out"
    if facts.failures:
        words += f"; {facts.failures:,} attempts failed"
    return words + "."


def end_words(facts: Facts) -> str:
    if facts.status == "unfinished":
        words = "goes on" if facts.runs else "was killed"
        return f"The run {words}: this is what there was when the report was made."
    reason = "" if facts.reason == facts.status else f": {facts.reason}"
    return f"The run {_ENDED[facts.status]}{reason}."


_ENDED = {
    "finished": "is finished",
    "interrupted": "was interrupted",
    "trouble": "had to stop",
}


def settled(facts: Facts) -> Settled:
    """Whether more samples would have changed the mixture."""
    if facts.weights is None:
        return Settled("no", "the warm start is not complete")
    if len(facts.weights) == 1:
        return Settled("unknown", f"{next(iter(facts.weights))} was the only arm in it at the end")
    if facts.policy in NOT_LEARNING:
        return Settled("unknown", f"the policy {facts.policy} does not learn weights")
    if facts.then is None or facts.mixture is None:
        return Settled("unknown", "too little was written down of how the weights went")
    left = _left_by_the_solver(facts)
    if left is not None:
        return Settled("no", left)
    then = facts.then
    changes = [_relative(term, facts.mixture.scores, then.scores) for term in facts.terms]
    change = max((each for each in changes if each is not None), default=None)
    since = f"over the last {facts.samples - then.samples:,} samples"
    moved = (
        f"no weight has moved {since}"
        if then.moved < SAME
        else f"no weight was more than {number(then.moved, 2)} from where it is now {since}"
    )
    if change is None and then.moved <= STILL:
        return Settled("yes", moved)
    if change is not None and (change <= SAME or (then.moved <= STILL and change <= NEAR)):
        worth = (
            f"the mixture of {facts.samples - then.samples:,} samples ago is as good on all samples "
            f"in hand ({_change(change)})"
        )
        return Settled("yes", f"{moved}, and {worth}")
    if then.moved > STILL:
        return Settled("no", f"a weight moved by {number(then.moved, 2)} {since}{_cost_of(change)}")
    return Settled("no", f"the mixture still changes its score {since}{_cost_of(change)}")


def _left_by_the_solver(facts: Facts) -> str | None:
    """If the weights are of a while ago: those of now would be better."""
    if facts.policy != "mixture-greedy" or facts.mixture is None or len(facts.terms) != 1:
        return None
    behind = gain(facts.terms[0], facts.best, facts.mixture.scores)
    if behind is None or behind <= NEAR:
        return None
    return (
        "the weights were not solved again for the last samples, and would score "
        f"{behind:.1%} better"
    )


def _relative(term: Term, now: Values, then: Values) -> float | None:
    """By what part of itself a score has changed, where that can be said."""
    if now.get(term.name) is not None and now.get(term.name) == then.get(term.name):
        return 0.0
    change = gain(term, now, then)
    return None if change is None else abs(change)


def _change(change: float) -> str:
    return "its score differs by less than 0.1 %" if change <= SAME else f"within {change:.1%}"


def _cost_of(change: float | None) -> str:
    return "" if change is None else f", which changes its score by {change:.1%}"


def settled_words(facts: Facts) -> str:
    found = settled(facts)
    start = {
        "yes": "It has converged",
        "no": "It has not converged",
        "unknown": "Whether it has converged cannot be said",
    }
    words = f"{start[found.verdict]}: {found.why}."
    if facts.gap is not None and facts.policy not in NOT_LEARNING:
        whose = "of the arms still drawn from" if facts.has_leavers else "of these samples"
        words += f" Its loss is at most {facts.gap:.1e} above the least of any mixture {whose}."
    lag = _lag(facts)
    if lag is not None:
        words += lag
    return words


def _lag(facts: Facts) -> str | None:
    """The samples in hand against the mixture: the warm start still weighs in them."""
    if facts.mixture is None or not facts.terms or not facts.pooled or facts.policy in NOT_LEARNING:
        return None
    term = facts.terms[0]
    behind = gain(term, facts.mixture.scores, facts.pooled)
    if behind is None or behind <= NEAR:
        return None
    return (
        f" All samples together score {number(facts.pooled[term.name])}: those of the warm start, and of "
        "before the weights settled, are among them."
    )


# -- what to do next ---------------------------------------------------------------------------------


def next_steps(facts: Facts) -> list[Step]:
    """The most urgent first; never empty."""
    steps = [*_broken(facts), *_unfinished(facts)]
    verdict = settled(facts).verdict
    if facts.status == "finished" and verdict == "no":
        steps.append(Step("budget", f"{_more(facts)}: {settled(facts).why}."))
    steps += _idle(facts)
    steps += _single(facts)
    if facts.status == "finished" and verdict != "no":
        steps.append(
            Step(
                "use",
                "Use it: samples.jsonl is the data set, and weights.json has the weights to draw more with.",
            )
        )
    return steps


def _more(facts: Facts) -> str:
    if facts.used_up:
        verb = "has" if len(facts.used_up) == 1 else "have"
        return f"{listed(facts.used_up)} {verb} no more samples to give: record more, and run the study again"
    return (
        f"Raise the budget and run the study again, twice the samples ({2 * facts.samples:,}), say"
    )


def _broken(facts: Facts) -> list[Step]:
    """Arms that failed for good, or often."""
    found = []
    for arm in facts.arms:
        attempts = arm.count + arm.failures
        if not arm.failures or not (
            arm.suspensions or not arm.count or arm.failures > OFTEN * attempts
        ):
            continue
        words = f"{arm.label} failed in {arm.failures:,} of {attempts:,} attempts"
        if arm.suspensions:
            words += f" and was suspended {arm.suspensions}×"
        cause = f" The last failure: {arm.last_failure}" if arm.last_failure else ""
        found.append(Step("failed", f"{words}: mend it, or leave it out.{cause}"))
    return found


def _unfinished(facts: Facts) -> list[Step]:
    if facts.status == "finished":
        return []
    if facts.runs:
        return [Step("wait", "Wait: the run goes on, and the report at its end will know more.")]
    folder = facts.folder if facts.folder.name else facts.folder.resolve()  # not where one reads it
    return [Step("resume", f"Go on with the run: genmix resume {shlex.quote(str(folder))}")]


def _idle(facts: Facts) -> list[Step]:
    """Arms that the best mixture can do without."""
    if facts.mixture is None or not facts.weights or len(facts.weights) < 2:
        return []
    spare = [arm for arm in facts.arms if arm.weight is not None and _is_spare(facts, arm)]
    others = [arm for arm in spare if (arm.weight or 0.0) >= NEGLIGIBLE]
    unused = [arm for arm in spare if arm not in others]
    found = _unused("look", [arm for arm in unused if arm.may_be_needed])
    found += _unused("drop", [arm for arm in unused if not arm.may_be_needed])
    if others:
        names = listed([arm.label for arm in others])
        which = "it" if len(others) == 1 else "any one of them, not all,"
        found.append(
            Step(
                "drop",
                f"You may drop {names}: other arms can take the place of {which} at no loss.",
            )
        )
    return found


def _unused(kind: Literal["look", "drop"], arms: Sequence[Arm]) -> list[Step]:
    """Of arms without weight: look longer at those that were seen too seldom, drop the others."""
    if not arms:
        return []
    names = listed([f"{arm.label} (seen in {arm.count:,} samples)" for arm in arms])
    which = "it" if len(arms) == 1 else "them"
    return [Step(kind, _UNUSED[kind].format(names=names, which=which))]


_UNUSED: dict[Literal["look", "drop"], str] = {
    "look": "The mixture uses next to nothing of {names}, but has seen too little of {which} to be sure: "
    "raise warm_start before you drop {which}.",
    "drop": "Drop {names}: the mixture uses next to nothing of {which} and loses nothing without {which}.",
}


def _is_spare(facts: Facts, arm: Arm) -> bool:
    """Whether no score falls without it."""
    assert facts.mixture is not None
    if not arm.without or not facts.terms:
        return False
    losses = [gain(term, facts.best, arm.without) for term in facts.terms]
    return all(loss is not None and loss <= SAME for loss in losses)


def _single(facts: Facts) -> list[Step]:
    """If one arm does it all."""
    best = facts.best_arm
    if facts.mixture is None or best is None or len(facts.weights or ()) < 2 or not facts.terms:
        return []
    if best.label not in (facts.weights or ()):  # the others do not add to it, they stand in for it
        return []
    rival = facts.against_best_arm
    if rival is None or not all(_is_as_good(term, rival) for term in facts.terms):
        return []
    return [
        Step(
            "single",
            f"{best.label} alone scores as well, within 1 %, in sets of {rival.size:,} samples: the "
            "others add little to it.",
        )
    ]


def _is_as_good(term: Term, rival: Rival) -> bool:
    """Whether the mixture is no better by more than 1 %, and so sure that chance hides no more."""
    share, spread, other = (
        gain(term, rival.mixture, rival.other),
        rival.spread.get(term.name),
        rival.other.get(term.name),
    )
    if share is None or spread is None or not other:
        return False
    return abs(share) <= NEAR and SURE * spread <= NEAR * abs(other)
