"""Misspelled keys: the suggestion is the key that was meant, at every level."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from genmix.study.study import StudyError, study_from

STUDY: dict[str, Any] = {
    "arms": {
        "a": {"kind": "openai", "model": "m", "base_url": "http://x/v1", "prompt": "p"},
        "b": {"kind": "callable", "function": "a:b"},
    },
    "encoder": {"kind": "sentence-transformers", "model": "x"},
    "objective": {"vendi": {"order": 2, "kernel": {"gaussian": {"bandwidth": 2.0}}}},
    "policy": {"mixture-ucb": {}},
    "budget": {"samples": 100},
    "retries": {"attempts": 3},
    "stop_when": {"weights_within": 0.1, "over": 50},
}


@pytest.mark.parametrize(
    "path, typed",
    [
        ("arms", "amrs"),
        ("arms.a.model", "modle"),
        ("arms.a.model", "Model"),
        ("arms.a.kind", "knid"),
        ("arms.a.prompt", "promt"),
        ("arms.b.function", "funtcion"),
        ("encoder.model", "modle"),
        ("encoder.kind", "kidn"),
        ("objective.vendi", "vnedi"),
        ("objective.vendi.order", "oder"),
        ("objective.vendi.kernel", "kernl"),
        ("objective.vendi.kernel.gaussian", "gausian"),
        ("objective.vendi.kernel.gaussian.bandwidth", "bandwith"),
        ("policy", "polciy"),
        ("policy.mixture-ucb", "mixture-ubc"),
        ("budget.samples", "smaples"),
        ("retries.attempts", "atempts"),
        ("stop_when.over", "ovre"),
    ],
)
def test_a_misspelled_key_suggests_the_right_one(path: str, typed: str) -> None:
    study = copy.deepcopy(STUDY)
    *where, key = path.split(".")
    holder = study
    for name in where:
        holder = holder[name]
    holder[typed] = holder.pop(key)
    with pytest.raises(StudyError) as caught:
        study_from(study)
    assert any(f"{typed!r}" in p and f"did you mean {key!r}?" in p for p in caught.value.problems)
