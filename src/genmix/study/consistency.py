"""What is wrong with a study as a whole, although every part of it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genmix.core.text import listed
from genmix.errors import InputError
from genmix.study.names import needs_reference
from genmix.study.problems import Faults, did_you_mean
from genmix.study.components import (
    make_policy,
    reference_of,
    reference_paths,
    term_path,
    trial_objective,
)

if TYPE_CHECKING:
    from genmix.study.study import Study

MAKES_NO_VECTORS = ("openai", "transformers", "diffusers")
"""Kinds of arms whose samples are texts or images, whatever their settings."""


def check_whole(study: Study, faults: Faults) -> None:
    """Everything that can be known before anything is built."""
    _check_budget(study, faults)
    _check_references(study, faults)
    _check_objective(study, faults)
    _check_policy(study, faults)
    _check_encoder(study, faults)


def _check_budget(study: Study, faults: Faults) -> None:
    samples, arms, each = study.budget.samples, len(study.arms), study.warm_start
    if samples is None:
        return
    if samples < arms * each:
        faults.add(
            ("budget", "samples"),
            f"a budget of {samples} samples ends in the warm start of {arms} × {each}: give more than "
            f"{arms * each}, or lower warm_start.",
        )
    if study.stop_when is not None and study.stop_when.over >= samples:
        faults.add(
            ("stop_when", "over"),
            f"stop_when looks back over {study.stop_when.over} samples and the budget is {samples}: "
            "lower stop_when.over.",
        )


def _check_references(study: Study, faults: Faults) -> None:
    for position, term in enumerate(study.objective):
        if needs_reference(term.name) and not reference_of(term, study.reference):
            faults.add(
                term_path(study, position),
                f"{term.name} needs a reference and the study has none: add 'reference:' with a "
                "features file, a file of texts or a folder of images.",
            )
    if study.reference is not None and study.reference not in reference_paths(study):
        faults.add(
            ("reference",),
            "reference is given and no objective uses it: leave it out, or add one such as "
            "frechet-distance.",
        )


def _check_objective(study: Study, faults: Faults) -> None:
    objective = trial_objective(study.objective)
    if study.warm_start < objective.least_samples:
        faults.add(
            ("warm_start",),
            f"warm_start is {study.warm_start} and the objective needs {objective.least_samples} "
            f"samples of every arm: give at least {objective.least_samples}.",
        )
    try:
        objective.check_total(study.budget.samples or 0)
    except InputError as error:
        faults.add(("objective",), f"the objective cannot take the budget: {error}")


def _check_policy(study: Study, faults: Faults) -> None:
    labels = list(study.arms)
    given = study.policy.parameters
    named = given["weights"] if "weights" in given else [given["arm"]] if "arm" in given else []
    for label in named:
        if label not in labels:
            guess = did_you_mean(label, labels, f"the arms are {listed(labels)}")
            words = f"policy {study.policy.name} names an unknown arm {label!r}: {guess}"
            faults.add(("policy", study.policy.name), words)
    if not faults.found.keys() & {("policy",), ("policy", study.policy.name)}:
        try:
            make_policy(study).check(labels, labels, trial_objective(study.objective))
        except InputError as error:
            faults.add(("policy",), f"policy {study.policy.name}: {error}")


def _check_encoder(study: Study, faults: Faults) -> None:
    if study.encoder is not None:
        return
    for label, arm in study.arms.items():
        kind = getattr(arm, "kind", "")
        if kind in MAKES_NO_VECTORS or str(getattr(arm, "path", "")).endswith(".jsonl"):
            faults.add(
                ("encoder",),
                f"the study lacks 'encoder', and arm {label!r} makes no vectors: add it, such as "
                "'encoder: {kind: sentence-transformers, model: …}'.",
            )
            return
