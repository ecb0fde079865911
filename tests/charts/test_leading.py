"""What is shown of many arms."""

from __future__ import annotations

import pytest

from genmix.charts.leading import (
    MAX_COLORS,
    MAX_ROWS,
    MAX_VALUES,
    OTHERS,
    Total,
    leading,
    name_parts,
    stack,
)

NAMES = [f"{m}/p{p:03d}/t{t}" for m in "abc" for p in range(20) for t in (0.2, 0.7)]
COUNTS = dict.fromkeys(NAMES, 2)


def test_few_arms_are_all_shown_in_their_order() -> None:
    names = [str(n) for n in range(MAX_ROWS + 1)]
    assert leading(names, {}, {}) == names
    assert stack(names[:3], {}, {}).members == {n: [n] for n in names[:3]}


def test_the_leading_arms_have_the_most_weight_then_the_most_samples() -> None:
    weights = {"a/p003/t0.2": 0.5, "c/p001/t0.7": None}
    counts = COUNTS | {"b/p000/t0.2": 9, "c/p019/t0.7": 8}
    assert leading(NAMES, weights, counts, 3) == ["a/p003/t0.2", "b/p000/t0.2", "c/p019/t0.7"]


def test_the_others_are_summed_up() -> None:
    total = Total.of("", ["a", "b", "c"], {"a": 0.02, "b": 0.01}, {"a": 5, "b": 1})
    assert (total.arms, total.samples) == (3, 6)
    assert total.text == "and 3 others: 3% together"


def test_sums_by_parts_of_the_names() -> None:
    weights = {name: (0.5 if name.startswith("b") else 0.25) / 40 for name in NAMES}
    models, prompts, temperatures = name_parts(NAMES, weights, COUNTS)
    assert [(t.name, t.arms, t.samples) for t in models] == [
        ("b", 40, 80),
        ("a", 40, 80),
        ("c", 40, 80),
    ]
    assert [t.weight for t in models] == pytest.approx([0.5, 0.25, 0.25])
    assert len(prompts) == MAX_VALUES + 1
    assert prompts[-1].name == f"{20 - MAX_VALUES} others"
    for part in (models, prompts, temperatures):
        assert sum(t.weight for t in part) == pytest.approx(1)
        assert sum(t.arms for t in part) == len(NAMES)


@pytest.mark.parametrize(
    "names",
    [
        ["a/x", "b/x"],
        [f"m{n}" for n in range(50)],
        [*NAMES, "odd"],
        [f"{n}/{n}" for n in range(50)],
    ],
)
def test_names_without_common_parts(names: list[str]) -> None:
    assert name_parts(names, {}, {}) == []


def test_a_chart_stacks_the_leading_arms_and_the_rest() -> None:
    weights = dict.fromkeys(NAMES, 0.2 / 119) | {NAMES[0]: 0.8}
    found = stack(NAMES, weights, COUNTS)
    assert found.part is None
    assert len(found.members) == MAX_COLORS + 1
    assert sum(found.weights(weights).values()) == pytest.approx(1)
    assert found.weights(weights)[OTHERS] < 0.2


def test_a_chart_stacks_parts_of_names_if_no_arm_leads() -> None:
    weights = dict.fromkeys(NAMES, 1 / 120)
    found = stack(NAMES, weights, COUNTS)
    assert found.part == 1
    assert found.weights(weights) == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    unnamed = [f"m{n}" for n in range(50)]
    assert OTHERS in stack(unnamed, dict.fromkeys(unnamed, 0.02), {}).members
