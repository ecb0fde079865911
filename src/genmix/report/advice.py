"""Suggest what to do next, in a short list with the most urgent step first."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from genmix.core.text import listed
from genmix.diagnosis.thresholds import UNUSED_WEIGHT
from genmix.report.convergence import SIMILAR_SCORE, assess_convergence
from genmix.report.facts import Arm, Facts
from genmix.report.scoring import improvement
from genmix.report.sentences import SAME_SCORE, fell_short

FREQUENT_FAILURES = 0.1
"""Failures are reported if more than this share of the attempts fail."""


@dataclass(frozen=True)
class Advice:
    """One recommendation."""

    kind: Literal["failed", "resume", "wait", "budget", "look", "drop", "single", "use"]
    text: str


def advise(facts: Facts) -> list[Advice]:
    """Return at least one piece of advice, most urgent first."""
    advice = [*_failing_arms(facts), *_unfinished(facts), *_missing_samples(facts)]
    convergence = assess_convergence(facts)
    is_done = facts.status == "finished"
    if is_done and convergence.verdict == "no":
        advice.append(Advice("budget", f"{_more_samples(facts)}, because {convergence.reason}."))
    advice += [*_unnecessary_arms(facts), *_sufficient_arm(facts)]
    if is_done and convergence.verdict != "no":
        advice.append(
            Advice(
                "use",
                "Use the results: samples.jsonl is the data set, and weights.json has the weights for "
                "drawing more samples.",
            )
        )
    return advice


def _failing_arms(facts: Facts) -> list[Advice]:
    found = []
    for arm in facts.arms:
        attempts = arm.count + arm.failures
        is_frequent = arm.failures > FREQUENT_FAILURES * attempts
        if not arm.failures or not (arm.suspensions or not arm.count or is_frequent):
            continue
        text = f"{arm.label} failed in {arm.failures:,} of {attempts:,} attempts"
        if arm.suspensions:
            text += f" and was suspended {arm.suspensions}×"
        last = f" Last failure: {arm.last_failure}" if arm.last_failure else ""
        found.append(Advice("failed", f"{text}. Fix it or leave it out.{last}"))
    return found


def _unfinished(facts: Facts) -> list[Advice]:
    if facts.status == "finished":
        return []
    if facts.is_running:
        return [Advice("wait", "Wait for the run to finish. The final report will say more.")]
    return [Advice("resume", f"Continue the run: genmix resume {_folder(facts)}")]


def _folder(facts: Facts) -> str:
    # "." would be meaningless in another working directory.
    folder = facts.folder if facts.folder.name else facts.folder.resolve()
    return shlex.quote(str(folder))


def _missing_samples(facts: Facts) -> list[Advice]:
    """Suggest a cost budget that suffices for the samples that a run did not deliver."""
    asked = facts.study["budget"]
    is_cost = str(facts.reason).startswith("the cost budget")
    if not fell_short(facts) or not is_cost or not facts.cost or not facts.samples:
        return []
    total = float(f"{1.05 * facts.cost / facts.samples * asked['samples']:.2g}")
    missing = f"{asked['samples'] - facts.samples:,} missing samples"
    command = f"genmix resume {_folder(facts)} --cost {total:g}"
    return [Advice("budget", f"Raise the cost budget for the {missing}, e.g.: {command}")]


def _more_samples(facts: Facts) -> str:
    if facts.exhausted:
        verb = "has" if len(facts.exhausted) == 1 else "have"
        return (
            f"{listed(facts.exhausted)} {verb} no samples left. Record more and run the study again"
        )
    return (
        "Increase the budget and run the study again, for example with twice the samples "
        f"({2 * facts.samples:,})"
    )


def _unnecessary_arms(facts: Facts) -> list[Advice]:
    """Advise on arms that the best mixture does not need."""
    if facts.mixture is None or not facts.weights or len(facts.weights) < 2:
        return []
    spare = [arm for arm in facts.arms if arm.weight is not None and _is_spare(facts, arm)]
    used = [arm for arm in spare if (arm.weight or 0.0) >= UNUSED_WEIGHT]
    unused = [arm for arm in spare if arm not in used]
    found = _unused("look", [arm for arm in unused if arm.maybe_needed])
    found += _unused("drop", [arm for arm in unused if not arm.maybe_needed])
    if used:
        names = listed(arm.label for arm in used)
        which = f"{names}: other arms can replace it"
        if len(used) > 1:
            which = f"any one of {names}, but not all of them: other arms can replace each one"
        found.append(Advice("drop", f"You can drop {which} at no loss."))
    return found


def _unused(kind: Literal["look", "drop"], arms: Sequence[Arm]) -> list[Advice]:
    """Advise on arms without weight: examine those with few samples, drop the others."""
    if not arms:
        return []
    names = listed(f"{arm.label} ({arm.count:,} samples)" for arm in arms)
    which = "it" if len(arms) == 1 else "them"
    if kind == "drop":
        text = f"Drop {names}: the mixture hardly uses {which} and loses nothing without {which}."
    else:
        text = (
            f"The mixture hardly uses {names}, but there are too few samples from {which} to be sure. "
            f"Increase warm_start before you drop {which}."
        )
    return [Advice(kind, text)]


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
