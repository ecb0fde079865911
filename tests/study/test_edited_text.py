"""Changing settings in the text of a study without losing its comments."""

from __future__ import annotations

from typing import Any

import pytest

from genmix.study.edited_text import text_with
from genmix.study.parsing import parse_study_text
from genmix.study.template import EXAMPLE


def data_of(text: str) -> dict[str, Any]:
    return parse_study_text("text", text).data


TEXTS = {
    "a block": "seed: 0  # mine\nbudget:\n  samples: 20  # few\n  time: 1h\n",
    "a flow": "budget: {time: 1h, samples: 20}  # few\n",
    "a flow over lines": "budget: {time: 1h,\n  samples: 20}  # few\n",
    "without a budget": "seed: 4 # few\n",
    "an empty budget": "# few\nbudget: {}\n",
    "a wrong budget": "budget: 7 # few\n",
    "Windows": "budget:\r\n  samples: 20  # few\r\nseed: 1\r\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize(
    "changes",
    [
        {"budget": {"samples": 50}},
        {"budget": {"samples": 50, "cost": 0.5, "time": "90"}},
        {"seed": 7, "name": "2024"},
        {"name": 'quo"ted: #1', "budget": {"time": "2h 30m"}},
    ],
)
def test_only_the_given_settings_change(text: str, changes: dict[str, Any]) -> None:
    expected = data_of(text) | changes
    if "budget" in changes:
        before = data_of(text).get("budget")
        expected["budget"] = (before if isinstance(before, dict) else {}) | changes["budget"]
    assert data_of(text_with(text, changes)) == expected


@pytest.mark.parametrize("name", ["a block", "a flow", "a flow over lines", "without a budget"])
def test_comments_stay(name: str) -> None:
    changed = text_with(TEXTS[name], {"seed": 5, "budget": {"samples": 50}})
    assert "# few" in changed
    assert changed.splitlines()[0].startswith(("seed: 5", "budget:"))


def test_the_example_keeps_every_comment() -> None:
    changed = text_with(EXAMPLE, {"name": "x", "seed": 1, "budget": {"samples": 300, "cost": 2.0}})
    assert changed.count("#") == EXAMPLE.count("#")
    assert data_of(changed) == data_of(EXAMPLE) | {
        "name": "x",
        "seed": 1,
        "budget": {"samples": 300, "cost": 2.0},
    }


def test_a_text_that_cannot_be_edited_is_written_anew() -> None:
    text = "base: &base {samples: 20}\nbudget: *base\n"
    changed = text_with(text, {"budget": {"samples": 50}})
    assert data_of(changed) == {"base": {"samples": 20}, "budget": {"samples": 50}}
