"""Checks that involve several sections of a study."""

from __future__ import annotations

from typing import Any

import pytest

import genmix as gx
from genmix.study.study import (
    StudyError,
    study_from,
)
from tests.support.studies import (
    plain_study,
    said_by,
)

WHOLE: list[tuple[dict[str, Any], str]] = [
    (
        {"budget": {"samples": 19}},
        "budget.samples: a budget of 19 samples is less than the warm start of 2 × 10; use at least 20 "
        "samples, or lower warm_start.",
    ),
    (
        {"objective": "precision"},
        "objective: precision needs a reference; add 'reference:' with a feature file, a text "
        "file or a folder of images.",
    ),
    (
        {"objective": ["vendi", "frechet-distance"]},
        "objective[1]: frechet-distance needs a reference; add 'reference:' with a feature file, a "
        "text file or a folder of images.",
    ),
    (
        {"reference": "real.npz"},
        "reference: no objective uses the reference; remove it, or add an objective such as "
        "frechet-distance.",
    ),
    (
        {"objective": {"density": {"reference": "a"}}, "reference": "real.npz"},
        "reference: no objective uses the reference; remove it, or add an objective such as "
        "frechet-distance.",
    ),
    (
        {"objective": {"rke": {"unbiased": True}}, "warm_start": 1},
        "warm_start: warm_start is 1, but the objective needs 2 samples per arm; use at least 2.",
    ),
    (
        {"objective": {"vendi": {"kernel": "gaussian"}}, "budget": {"samples": 5000}},
        "objective: the budget is too large for the objective: "
        + said_by(gx.Vendi(kernel=gx.Gaussian()).check_total, 5000),
    ),
    (
        {"policy": {"one-arm-oracle": {"arm": "tow"}}},
        "policy.one-arm-oracle: one-arm-oracle names an unknown arm 'tow'; did you mean 'two'?",
    ),
    (
        {"policy": {"fixed": {"weights": {"one": 0.5, "xyz": 0.5}}}},
        "policy.fixed: fixed names an unknown arm 'xyz'; the arms are one and two.",
    ),
    (
        {"policy": "frechet-ucb"},
        "policy: frechet-ucb: " + said_by(gx.FrechetUCB().check, ["one"], ["one"], gx.Vendi()),
    ),
    (
        {"stop_when": {"weights_within": 0.1}},
        "stop_when.over: stop_when.over is 100, but the budget is 100 samples; lower "
        "stop_when.over.",
    ),
    (
        {"arms": {"a": {"kind": "openai", "model": "m", "base_url": "http://x/v1", "prompt": "p"}}},
        "encoder: the study has no 'encoder', but the samples of arm 'a' are not vectors; add one, "
        "e.g. 'encoder: {kind: sentence-transformers, model: …}'.",
    ),
    (
        {"arms": {"a": {"kind": "recorded", "path": "x.jsonl"}}},
        "encoder: the study has no 'encoder', but the samples of arm 'a' are not vectors; add one, "
        "e.g. 'encoder: {kind: sentence-transformers, model: …}'.",
    ),
]


@pytest.mark.parametrize("parts, sentence", WHOLE)
def test_inconsistent_sections_are_rejected(parts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StudyError) as caught:
        study_from(plain_study(**parts))
    assert caught.value.problems == (sentence,)


def test_a_budget_of_just_the_warm_start_is_allowed() -> None:
    assert study_from(plain_study(budget={"samples": 20})).budget.samples == 20
