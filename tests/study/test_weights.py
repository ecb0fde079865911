"""Bounds on the weights of arms, as written in a study."""

from __future__ import annotations

from typing import Any

import pytest

from genmix.runs.prepare import make_selector
from genmix.study.study import StudyError, json_schema, study_from
from tests.support.studies import plain_study


def test_bounds_reach_the_selector(tmp_path: Any) -> None:
    study = study_from(plain_study(weights={"at_least": {"one": 0.3}, "at_most": {"two": "0.6"}}))
    assert study.weights is not None
    assert study.weights.model_dump() == {"at_least": {"one": 0.3}, "at_most": {"two": 0.6}}
    assert study_from(study.plain()) == study
    selector = make_selector(study, tmp_path, None, lambda line: None)
    limits = selector.state_dict()["limits"]
    assert (limits["at_least"], limits["at_most"]) == ({"one": 0.3}, {"two": 0.6})


def test_a_study_without_bounds_has_none(tmp_path: Any) -> None:
    study = study_from(plain_study())
    assert study.weights is None
    assert not make_selector(study, tmp_path, None, lambda line: None).state_dict()["limits"][
        "at_least"
    ]


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (
            {"at_least": {"tow": 0.1}},
            "weights.at_least: at_least names an unknown arm 'tow'; did you mean 'two'?",
        ),
        (
            {"at_most": {"xyz": 0.1}},
            "weights.at_most: at_most names an unknown arm 'xyz'; the arms are one and two.",
        ),
        (
            {"at_least": {"one": 0.5, "two": 0.7}},
            "weights: at_least adds up to 1.2; lower it to at most 1.",
        ),
        (
            {"at_most": {"one": 0.5, "two": 0.2}},
            "weights: at_most adds up to 0.7; raise it to at least 1.",
        ),
        (
            {"at_least": {"one": 0.5}, "at_most": {"one": 0.2}},
            "weights: at_least of 'one' is 0.5, but at_most is 0.2; lower at_least to at most 0.2.",
        ),
    ],
)
def test_bounds_that_no_mixture_meets_are_rejected(weights: Any, sentence: str) -> None:
    with pytest.raises(StudyError) as caught:
        study_from(plain_study(weights=weights))
    assert caught.value.problems == (sentence,)


def test_numbers_and_keys_are_checked() -> None:
    for weights, words in (
        ({"at_least": {"one": 2}}, "at_least.one is 2; use a number"),
        ({"at_leats": {"one": 0.2}}, "did you mean 'at_least'?"),
    ):
        with pytest.raises(StudyError) as caught:
            study_from(plain_study(weights=weights))
        assert words in caught.value.problems[0]


def test_policies_that_do_not_solve_are_refused_with_bounds() -> None:
    study = plain_study(policy="uniform", weights={"at_least": {"one": 0.2}})
    with pytest.raises(StudyError, match=r"Uniform does not keep at_least, at_most or mean_cost"):
        study_from(study)


def test_editors_know_the_bounds() -> None:
    assert "WeightLimits" in json_schema()["$defs"]
