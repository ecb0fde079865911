"""Check that the sections of a study are consistent with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import genmix as gx
from genmix.core.text import counted, listed
from genmix.errors import InputError
from genmix.selector.limits import Limits
from genmix.solvers.newton import Newton
from genmix.study.components import (
    OwnObjective,
    make_policy,
    reference_of,
    reference_paths,
    term_path,
    trial_objective,
    uses_joint,
    uses_pairs,
    uses_prompt_embeddings,
)
from genmix.study.problems import Problems, did_you_mean

if TYPE_CHECKING:
    from genmix.study.sections import Prompts
    from genmix.study.study import Study

WITHOUT_VECTORS = ("openai", "transformers", "diffusers")
"""Kinds of arms that always produce text or images."""
WITHOUT_TEXTS = ("dinov2", "inception", "pixels", "precomputed")
"""Kinds of encoders that cannot embed texts."""


def check_consistency(study: Study, problems: Problems) -> None:
    """Check everything that can be checked before anything is built."""
    _check_budget(study, problems)
    _check_prompts(study, problems)
    _check_references(study, problems)
    _check_objective(study, problems)
    _check_policy(study, problems)
    _check_weights(study, problems)
    _check_encoder(study, problems)
    _check_keep(study, problems)


def _check_budget(study: Study, problems: Problems) -> None:
    samples, arms, each = study.budget.samples, len(study.arms), study.warm_start
    if study.budget.is_empty and study.prompts is None:
        problems.add(("budget",), "budget: no limit is set; set samples, cost or time.")
    if samples is None:
        return
    if samples < arms * each:
        problems.add(
            ("budget", "samples"),
            f"a budget of {counted(samples, 'sample')} is less than the warm start of {arms} × {each}; use "
            f"at least {arms * each} samples, or lower warm_start.",
        )
    if study.stop_when is not None and study.stop_when.over >= samples:
        problems.add(
            ("stop_when", "over"),
            f"stop_when.over is {study.stop_when.over}, but the budget is {counted(samples, 'sample')}; "
            "lower stop_when.over.",
        )


def _check_prompts(study: Study, problems: Problems) -> None:
    """Check that the arms can answer the prompts of the study, and that what needs prompts has them."""
    _check_pairs(study, problems)
    if study.prompts is None:
        return
    for label, arm in study.arms.items():
        if getattr(arm, "kind", "") == "recorded":
            problems.add(
                ("arms", label),
                f"arm {label!r}: a recorded arm cannot answer prompts; remove it, or remove 'prompts:' from "
                "the study.",
            )
    _check_prompt_embeddings(study, study.prompts, problems)


def _check_prompt_embeddings(study: Study, prompts: Prompts, problems: Problems) -> None:
    """Check that the prompts can be embedded if anything uses their embeddings."""
    encoder = prompts.encoder or study.encoder
    kind = getattr(encoder, "kind", None)
    if prompts.embedding is not None or (encoder is not None and kind not in WITHOUT_TEXTS):
        return
    why = "" if kind is None else f" (the encoder {kind} cannot embed texts)"
    if prompts.groups:
        problems.add(
            ("prompts", "groups"),
            f"groups are formed from embeddings of the prompts{why}; add an 'encoder' for texts, or name a "
            "column with 'group:'.",
        )
    if uses_prompt_embeddings(study):
        problems.add(
            ("prompts",),
            f"the objective or the policy uses embeddings of the prompts{why}; add 'encoder:' to the "
            "prompts, or name a column with 'embedding:'.",
        )


def _check_pairs(study: Study, problems: Problems) -> None:
    """Check that all terms can be computed from pairs of a prompt and an answer, if one of them is."""
    if not uses_pairs(study):
        return
    if study.prompts is None:
        problems.add(
            ("objective",),
            "the joint kernel compares prompts and answers, but the study has no prompts; add 'prompts:', or "
            "use another kernel.",
        )
        return
    for position, term in enumerate(study.objective):
        if isinstance(term, OwnObjective) or issubclass(term.component, gx.Quality | gx.Cost):
            continue
        if term.needs_reference or "kernel" not in type(term).model_fields:
            words = f"{term.kind} cannot be combined with a joint kernel; remove one of them."
            problems.add(term_path(study, position), words)
        elif not uses_joint(term):
            problems.add(
                term_path(study, position),
                f"{term.kind} needs a joint kernel, like the other term; to compare only the answers, use "
                "'kernel: {joint: {prompt: null}}'.",
            )


def _check_keep(study: Study, problems: Problems) -> None:
    if study.stop_when is not None and study.stop_when.keep_gain_below and study.keep is None:
        problems.add(
            ("stop_when", "keep_gain_below"),
            "stop_when.keep_gain_below needs the samples to keep; add keep, e.g. 'keep: {samples: 300}'.",
        )
    if study.keep is None or study.keep.samples is None:
        return
    kept, budget = study.keep.samples, study.budget.samples
    if budget is not None and kept > budget:
        problems.add(
            ("keep", "samples"),
            f"keep.samples is {kept}, but the budget is {counted(budget, 'sample')}; lower "
            "keep.samples.",
        )
    least = trial_objective(study).least_samples
    if kept < least:
        problems.add(
            ("keep", "samples"),
            f"keep.samples is {kept}, but the objective needs {counted(least, 'sample')}; use at "
            f"least {least}.",
        )


def _check_references(study: Study, problems: Problems) -> None:
    for position, term in enumerate(study.objective):
        if term.needs_reference and not reference_of(term, study.reference):
            problems.add(
                term_path(study, position),
                f"{term.kind} needs a reference; add 'reference:' with a feature file, a text file "
                "or a folder of images.",
            )
    if study.reference is not None and study.reference not in reference_paths(study):
        problems.add(
            ("reference",),
            "no objective uses the reference; remove it, or add an objective such as "
            "frechet-distance.",
        )


def _check_objective(study: Study, problems: Problems) -> None:
    objective = trial_objective(study)
    if study.warm_start < objective.least_samples:
        problems.add(
            ("warm_start",),
            f"warm_start is {study.warm_start}, but the objective needs {objective.least_samples} "
            f"samples per arm; use at least {objective.least_samples}.",
        )
    try:
        # Without budget.samples, the run compares the limit with what the arms can supply.
        objective.check_total(study.budget.samples or 0)
    except InputError as error:
        problems.add(("objective",), f"the budget is too large for the objective: {error}")


def _known_arms(labels: list[str]) -> str:
    return (
        f"the only arm is {labels[0]!r}" if len(labels) == 1 else f"the arms are {listed(labels)}"
    )


def _check_policy(study: Study, problems: Problems) -> None:
    labels, policy = list(study.arms), study.policy
    arm = getattr(policy, "arm", None)
    unknown = [
        each for each in getattr(policy, "weights", [arm] if arm else []) if each not in labels
    ]
    for each in unknown:
        advice = did_you_mean(each, labels, _known_arms(labels))
        words = f"{policy.kind} names an unknown arm {each!r}; {advice}"
        problems.add(("policy", policy.kind), words)
    if not unknown:
        try:
            made = make_policy(study)
            _check_prompt_policy(study, made)
            made.check(labels, labels, trial_objective(study))
        except InputError as error:
            problems.add(("policy",), f"{policy.kind}: {error}")


def _check_prompt_policy(study: Study, policy: gx.Policy) -> None:
    if policy.needs_prompts and study.prompts is None:
        raise InputError(
            "it chooses an arm for every prompt, but the study has no prompts; add 'prompts:', or use "
            "another policy."
        )
    if getattr(policy, "needs_references", False):
        raise InputError(
            "it compares with a reference answer to every prompt, which a study does not have; use "
            "'diversity: rke'."
        )


def _check_weights(study: Study, problems: Problems) -> None:
    if study.weights is None:
        return
    labels, are_known = list(study.arms), True
    for key in ("at_least", "at_most"):
        for each in getattr(study.weights, key):
            if each not in labels:
                advice = did_you_mean(each, labels, _known_arms(labels))
                problems.add(("weights", key), f"{key} names an unknown arm {each!r}; {advice}")
                are_known = False
    if not are_known:
        return
    try:
        limits = Limits.of(labels, study.weights.at_least, study.weights.at_most, None, None)
        limits.check(make_policy(study), Newton())
    except InputError as error:
        problems.add(("weights",), str(error))


def _check_encoder(study: Study, problems: Problems) -> None:
    if study.encoder is not None:
        return
    for label, arm in study.arms.items():
        kind = getattr(arm, "kind", "")
        if kind in WITHOUT_VECTORS or str(getattr(arm, "path", "")).endswith(".jsonl"):
            problems.add(
                ("encoder",),
                f"the study has no 'encoder', but the samples of arm {label!r} are not vectors; add "
                "one, e.g. 'encoder: {kind: sentence-transformers, model: …}'.",
            )
            return
