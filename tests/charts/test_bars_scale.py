"""A bad arm does not flatten the bar of the mixture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genmix import charts
from tests.charts.test_charts import drawn, marks, words

LONG = " with a name that is too long to stand beside others"


def rows(scores: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {"label": label, "mean": value, "kind": "mixture" if "mixture" in label else "arm"}
        for label, value in scores.items()
    ]


def lengths(root: Any) -> list[float]:
    """The lengths of the bars along their axis."""
    bars = [b for b in marks(root, "rect") if b.get("aria-roledescription") == "bar"]
    sizes = [[float(n) for n in re.findall(r"[hv](-?[\d.]+)", b.get("d") or "")] for b in bars]
    across = min(range(2), key=lambda i: np.ptp([abs(s[i]) for s in sizes]))
    return [abs(size[1 - across]) for size in sizes]


@pytest.mark.parametrize("name", ["mixture", "mixture" + LONG])
@pytest.mark.parametrize("worst", [60.0, 5e3, 1e9])
def test_the_mixture_can_be_seen_beside_a_bad_arm(worst: float, name: str, tmp_path: Path) -> None:
    scores = {"bad": worst, "good": 3.0, name: 2.0}
    root = drawn(charts.bars(rows(scores), "FD ↓", compress=True), tmp_path)
    bad, good, mixture = lengths(root)
    assert bad > good > mixture > 0.03 * bad
    assert any("log scale" in text for text in words(root))
    assert {"3.00", "2.00"} <= set(words(root))
    flat = drawn(charts.bars(rows(scores), "FD ↓"), tmp_path)
    assert lengths(flat)[2] < 0.04 * lengths(flat)[0]


def test_similar_bars_have_a_linear_axis(tmp_path: Path) -> None:
    scores = {"bad": 19.0, "mixture": 2.0}
    root = drawn(charts.bars(rows(scores), "FD ↓", compress=True), tmp_path)
    assert lengths(root)[0] / lengths(root)[1] == pytest.approx(9.5, rel=0.01)
    assert not any("log" in text for text in words(root))


def test_a_small_arm_beside_a_large_mixture_is_no_reason(tmp_path: Path) -> None:
    root = drawn(
        charts.bars(rows({"one": 1.0, "mixture": 50.0}), "Vendi ↑", compress=True), tmp_path
    )
    assert not any("log" in text for text in words(root))


@pytest.mark.parametrize("worst", [-700.0, 700.0])
def test_scores_of_both_signs(worst: float, tmp_path: Path) -> None:
    scores = {"bad": worst, "good": -1.0, "zero": 0.0, "mixture": 2.0}
    root = drawn(charts.bars(rows(scores), "quality ↑", compress=True), tmp_path)
    bad, good, zero, mixture = lengths(root)
    assert bad > mixture > good > zero == 0
    assert mixture > 0.05 * bad


def test_no_mixture_and_missing_scores(tmp_path: Path) -> None:
    found = [*rows({"bad": 900.0, "mixture": 1.0}), {"label": "none", "mean": None, "kind": "arm"}]
    assert "–" in words(drawn(charts.bars(found, "FD ↓", compress=True), tmp_path))
    alone = rows({"bad": 900.0, "good": 1.0})
    assert not any(
        "log" in w for w in words(drawn(charts.bars(alone, "FD", compress=True), tmp_path))
    )
