"""Suggest what to do next, in a short list with the most urgent step first."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from genmix.core.text import counted, listed, listed_few
from genmix.diagnosis.thresholds import UNUSED_WEIGHT
from genmix.journal.continuing import resume_command
from genmix.report.convergence import SIMILAR_SCORE, Convergence, assess_convergence
from genmix.report.facts import Arm, Facts
from genmix.report.failure_causes import OTHER
from genmix.report.scoring import improvement
from genmix.report.sentences import SAME_SCORE, fell_short, ran_out

FREQUENT_FAILURES = 0.1
"""Failures are reported if more than this share of the attempts fail."""


@dataclass(frozen=True)
class Advice:
    """One recommendation."""

    kind: Literal["failed", "resume", "wait", "budget", "look", "drop", "single", "use"]
    text: str


def advise(facts: Facts, kept: int | None = None) -> list[Advice]:
    """Return at least one piece of advice, most urgent first.

    ``kept`` is the number of samples that the study keeps; None if it keeps all.
    """
    convergence, is_done = assess_convergence(facts), facts.status == "finished"
    is_short = fell_short(facts) or ran_out(facts)
    is_complete = is_done and not is_short
    failing = [
        arm
        for arm in facts.arms
        if arm.label in facts.study["arms"] and _is_failing(arm, is_complete)
    ]
    needs_more = is_done and (convergence.verdict == "no" or is_short)
    sufficient = _sufficient_arm(facts)
    advice = [*(_fix(facts, arm) for arm in failing), *_unfinished(facts)]
    if needs_more:
        advice += _missing_samples(facts) or _more_samples(facts, convergence)
    advice += _unnecessary_arms(facts, {arm.label for arm in failing}, bool(sufficient))
    advice += sufficient
    if is_done and not needs_more:
        advice.append(_use(facts, kept))
    return advice


def _use(facts: Facts, kept: int | None) -> Advice:
    which = "" if kept is None else f" (only the kept samples, {kept:,} of {facts.samples:,})"
    return Advice(
        "use",
        f"Use the results: samples.jsonl is the data set{which}, and weights.json has the weights for "
        "drawing more samples.",
    )


def _is_failing(arm: Arm, is_complete: bool) -> bool:
    """Return whether to do something about an arm; not if a complete run made up for all its failures."""
    if is_complete and arm.count and not arm.suspensions and not arm.given_up:
        return False
    is_frequent = arm.failures > FREQUENT_FAILURES * (arm.count + arm.failures)
    return bool(arm.failures and (arm.suspensions or not arm.count or is_frequent))


def _fix(facts: Facts, arm: Arm) -> Advice:
    """Say how often the arm failed, why, and what to do about it."""
    cause = arm.cause or OTHER
    text = f"{arm.label} failed in {arm.failures:,} of {arm.count + arm.failures:,} attempts"
    if arm.suspensions:
        text += f" and was suspended {arm.suspensions}×"
    if cause.meaning:
        text += f", mostly because {cause.meaning}"
    if _is_unused(arm) and _is_spare(facts, arm) and not arm.maybe_needed:
        what = "Drop it: the mixture loses nothing without it"
    else:
        settings = facts.study["arms"].get(arm.label, {})
        fix = cause.advise(settings, facts.study.get("retries", {}))
        what = f"{fix}; otherwise, drop the arm" if _can_drop(facts, arm) else fix
    last = f" Last failure: {arm.last_failure}" if arm.last_failure else ""
    return Advice("failed", f"{text}. {what}.{last}")


def _can_drop(facts: Facts, arm: Arm) -> bool:
    """Return whether the arm is not in the mixture, or the mixture would do as well without it."""
    if len(facts.study["arms"]) < 2 or arm.maybe_needed:
        return False
    return arm.weight is None or _is_spare(facts, arm)


def _unfinished(facts: Facts) -> list[Advice]:
    if facts.status == "finished":
        return []
    if facts.is_running:
        return [Advice("wait", "Wait for the run to finish. The final report will say more.")]
    return [Advice("resume", f"Continue the run: {_resume(facts)}")]


def _resume(facts: Facts, **limits: str) -> str:
    return resume_command(facts.folder, facts.study, **limits)


def _missing_samples(facts: Facts) -> list[Advice]:
    """Suggest a cost budget that suffices for the samples that a run did not deliver."""
    asked = facts.study["budget"]
    is_cost = str(facts.reason).startswith("the cost budget")
    if not fell_short(facts) or not is_cost or not facts.cost or not facts.samples:
        return []
    total = float(f"{1.05 * facts.cost / facts.samples * asked['samples']:.2g}")
    missing = f"{asked['samples'] - facts.samples:,} missing samples"
    command = _resume(facts, cost=f"{total:g}")
    return [Advice("budget", f"Raise the cost budget for the {missing}, e.g.: {command}")]


def _more_samples(facts: Facts, convergence: Convergence) -> list[Advice]:
    """Say how to get more samples: from arms that ran out of them, or by extending the run."""
    spare = {arm.label for arm in facts.arms if _is_unused(arm) and _is_spare(facts, arm)}
    why = f", because {convergence.reason}" if convergence.verdict == "no" else ""
    gone = facts.labels if ran_out(facts) else facts.exhausted
    if wanted := [arm for arm in gone if arm not in spare]:
        verb = "has" if len(wanted) == 1 else "have"
        text = f"{listed(wanted)} {verb} no samples left. Record more and run the study again{why}."
        return [Advice("budget", text)]
    asked = facts.study["budget"].get("samples") or 0
    total = asked if fell_short(facts) else 2 * facts.samples
    which = f" to all {total:,} samples" if total == asked else f", e.g. to {total:,} samples"
    return [Advice("budget", f"Extend the run{which}{why}: {_extension(facts, total)}")]


def _extension(facts: Facts, samples: int) -> str:
    """Return the command that continues the run with budgets for this many samples."""
    budget, factor = facts.study["budget"], 1.05 * samples / max(facts.samples, 1)
    limits = dict[str, str]()
    if (budget.get("samples") or samples) < samples:
        limits["samples"] = str(samples)
    if budget.get("cost") is not None and factor * (facts.cost or 0.0) > budget["cost"]:
        limits["cost"] = f"{float(f'{factor * (facts.cost or 0.0):.2g}'):g}"
    if budget.get("time") is not None:
        limits["time"] = f"{math.ceil(factor * budget['time'])}s"
    return _resume(facts, **limits)


def _unnecessary_arms(facts: Facts, others: Collection[str], is_one_enough: bool) -> list[Advice]:
    """Advise on arms that the best mixture does not need; ``others`` already have advice."""
    if facts.mixture is None or not facts.weights or len(facts.weights) < 2:
        return []
    spare = [arm for arm in facts.arms if arm.label not in others and _is_spare(facts, arm)]
    unused = [arm for arm in spare if _is_unused(arm)]
    used = [arm for arm in spare if arm not in unused and arm.weight is not None]
    found = _unused("look", [arm for arm in unused if arm.maybe_needed])
    found += _unused("drop", [arm for arm in unused if not arm.maybe_needed])
    if used and not is_one_enough:
        names = listed_few(arm.label for arm in used)
        which = f"{names}: other arms can replace it"
        if len(used) > 1:
            which = f"any one of {names}, but not all of them: other arms can replace each one"
        found.append(Advice("drop", f"You can drop {which} at no loss."))
    return found


def _unused(kind: Literal["look", "drop"], arms: Sequence[Arm]) -> list[Advice]:
    """Advise on arms without weight: examine those with few samples, drop the others."""
    if not arms:
        return []
    names = listed_few(f"{arm.label} ({counted(arm.count, 'sample')})" for arm in arms)
    which = "it" if len(arms) == 1 else "them"
    if kind == "drop":
        text = f"Drop {names}: the mixture hardly uses {which} and loses nothing without {which}."
    else:
        text = (
            f"The mixture hardly uses {names}, but there are too few samples from {which} to be sure. "
            f"Increase warm_start before you drop {which}."
        )
    return [Advice(kind, text)]


def _is_unused(arm: Arm) -> bool:
    return arm.weight is not None and arm.weight < UNUSED_WEIGHT


def _is_spare(facts: Facts, arm: Arm) -> bool:
    """Return whether no score gets worse without the arm."""
    if not arm.scores_without or not facts.terms:
        return False
    losses = [improvement(term, facts.best_scores, arm.scores_without) for term in facts.terms]
    return all(loss is not None and loss <= SAME_SCORE for loss in losses)


def _sufficient_arm(facts: Facts) -> list[Advice]:
    """Point out a single arm that is as good as the mixture."""
    best = facts.best_arm
    if facts.mixture is None or best is None or len(facts.weights or ()) < 2 or not facts.terms:
        return []
    if best.label not in (facts.weights or ()):  # the mixture replaces a retired arm
        return []
    found = facts.vs_best_arm
    if found is None or not all(found.is_equal(term, SIMILAR_SCORE) for term in facts.terms):
        return []
    return [
        Advice(
            "single",
            f"{best.label} alone scores as well as the mixture, within 1%, in sets of {found.size:,} "
            "samples; the other arms add little.",
        )
    ]
