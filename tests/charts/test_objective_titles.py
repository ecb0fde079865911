"""The objective of a run in words, without Python in it."""

from __future__ import annotations

from typing import Any

import pytest

import genmix as gx
from genmix.charts.objective_titles import objective_title
from genmix.study.components import objective_classes
from genmix.study.study import study_from


def title(objective: Any) -> str:
    """The title of an objective as the journal of its run has it."""
    arms = {"a": {"kind": "recorded", "path": "a.npy"}}
    study = study_from({"arms": arms, "objective": objective, "budget": {"samples": 10}})
    return objective_title(study.plain()["objective"])


@pytest.mark.parametrize(
    "objective, words",
    [
        ("vendi", "Vendi (order 1, cosine kernel)"),
        ({"vendi": {"order": 2.5}}, "Vendi (order 2.5, cosine kernel)"),
        ({"vendi": {"order": "inf"}}, "Vendi (order ∞, cosine kernel)"),
        (
            {"vendi": {"kernel": {"gaussian": {"bandwidth": 3.0, "features": 200}}}},
            "Vendi (order 1, Gaussian kernel with bandwidth 3 and 200 random features)",
        ),
        ("rke", "RKE (Gaussian kernel with the median bandwidth)"),
        ({"fd": {"reference": "x.npy"}}, "Fréchet distance"),
        (
            {"kd": {"reference": "x.npy", "kernel": {"polynomial": {"degree": 2}}}},
            "kernel distance (polynomial kernel with degree 2)",
        ),
        ({"coverage": {"reference": "x.npy"}}, "coverage (5 neighbors, 10 draws)"),
        (
            ["vendi", {"cost": {"weight": 0.25}}],
            "Vendi (order 1, cosine kernel) + 0.25 × cost",
        ),
        (gx.Vendi(order=2) + gx.Quality(), "Vendi (order 2, cosine kernel) + quality"),
    ],
)
def test_an_objective_in_words(objective: Any, words: str) -> None:
    assert title(objective) == words


def test_a_kernel_of_ones_own_has_its_name() -> None:
    def overlap(x: Any, y: Any) -> Any:
        return x @ y.T

    assert title(gx.Vendi(kernel=overlap)).startswith("Vendi (order 1, ")
    assert "overlap kernel" in title(gx.Vendi(kernel=overlap))


@pytest.mark.parametrize("name", objective_classes())
def test_no_title_contains_python(name: str) -> None:
    found = objective_title([{name: {}}])
    assert found
    assert not set("=_<>[]{}'") & set(found)
    assert "()" not in found
    assert "None" not in found


@pytest.mark.parametrize(
    "terms",
    [
        *([], [{}], [None], [[1]], ["x"], None, 7),
        [{"vendi": 3}],
        [{"vendi": {"kernel": [1]}}],
        [{"vendi": {"order": {"a": 1}}}],
        [{"vendi": {"kernel": {"gaussian": {"bandwidth": {}}}}}],
    ],
)
def test_anything_in_a_journal_has_a_title(terms: Any) -> None:
    assert isinstance(objective_title(terms), str)
