"""The usual ways to choose k of N samples do what they say, so that keep has honest opponents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.paper import keep_rivals
from genmix.paper.keep_rivals import RULES, log_vendi, unit
from genmix.paper.subsamples import draw_from


def samples(seed: int, n: int = 24, d: int = 5) -> Any:
    rng = np.random.default_rng(seed)
    return unit(rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -0.5 + 0.3)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_chooses_k_different_samples_and_repeats(name: str) -> None:
    rows = samples(0)
    first, again = (RULES[name](rows, 7, np.random.default_rng(4)) for _ in range(2))
    assert first.tolist() == again.tolist() == sorted(set(first.tolist()))
    assert len(first) == 7
    assert RULES[name](rows, len(rows), np.random.default_rng(4)).tolist() == list(range(24))


@pytest.mark.parametrize("name", [name for name in RULES if name != "random"])
def test_every_rule_drops_copies(name: str) -> None:
    rows = np.repeat(np.eye(6), 4, axis=0)
    chosen = RULES[name](rows, 6, np.random.default_rng(1))
    assert sorted(chosen // 4) == list(range(6))


def test_lazy_greedy_is_greedy() -> None:
    for seed in range(3):
        rows = samples(seed)
        chosen = [int(np.random.default_rng(seed).integers(len(rows)))]
        while len(chosen) < 9:
            others = [j for j in range(len(rows)) if j not in chosen]
            chosen.append(max(others, key=lambda j: log_vendi(rows[[*chosen, j]])))
        lazy = keep_rivals.lazy_greedy(rows, 9, np.random.default_rng(seed))
        assert lazy.tolist() == sorted(chosen)


def test_the_logarithm_of_the_score_is_that_of_genmix() -> None:
    for n, d in ((4, 9), (9, 4)):
        rows = samples(7, n, d)
        score = float(gx.score({"rows": rows}, gx.Vendi()).pooled["vendi"])
        assert log_vendi(rows) == pytest.approx(np.log(score), rel=1e-10)


def test_farthest_point_adds_the_sample_with_the_largest_smallest_distance() -> None:
    rows = samples(2)
    chosen = [int(np.random.default_rng(0).integers(len(rows)))]
    while len(chosen) < 8:
        distances = [min(np.linalg.norm(row - rows[j]) for j in chosen) for row in rows]
        chosen.append(int(np.argmax(distances)))
    found = keep_rivals.farthest_point(rows, 8, np.random.default_rng(0))
    assert found.tolist() == sorted(chosen)


def test_the_threshold_compares_with_all_samples_farther_from_the_centroid() -> None:
    rows = samples(3)
    to_center = rows @ rows.mean(axis=0)
    closest = [
        max((float(row @ o) for o, c in zip(rows, to_center, strict=True) if c < mine), default=-2)
        for row, mine in zip(rows, to_center, strict=True)
    ]
    found = keep_rivals.similarity_threshold(rows, 10, np.random.default_rng(0))
    assert found.tolist() == sorted(np.argsort(closest)[:10].tolist())


def test_facility_location_is_greedy_in_the_covered_similarity() -> None:
    rows = samples(5)
    chosen: list[int] = []
    while len(chosen) < 8:
        others = [j for j in range(len(rows)) if j not in chosen]
        values = [keep_rivals.covered_similarity(rows, np.array([*chosen, j])) for j in others]
        chosen.append(others[int(np.argmax(values))])
    found = keep_rivals.facility_location(rows, 8, np.random.default_rng(0))
    assert keep_rivals.covered_similarity(rows, found) == pytest.approx(
        keep_rivals.covered_similarity(rows, np.array(chosen)), rel=1e-12
    )


def test_facility_location_covers_as_much_as_that_of_apricot() -> None:
    pytest.importorskip("apricot")
    rows = samples(6, n=60)
    ours = keep_rivals.facility_location(rows, 20, np.random.default_rng(0))
    theirs = keep_rivals.apricot_facility_location(rows, 20)
    assert keep_rivals.covered_similarity(rows, ours) == pytest.approx(
        keep_rivals.covered_similarity(rows, theirs), rel=1e-6
    )


def test_the_k_dpp_draws_different_samples() -> None:
    pytest.importorskip("dppy")
    rows = np.repeat(np.eye(6), 4, axis=0)
    chosen = keep_rivals.k_dpp(rows, 6, np.random.default_rng(1))
    assert sorted(chosen // 4) == list(range(6))


def test_draws_are_different_rows_in_the_proportions_of_the_mixture() -> None:
    drawn = draw_from([100, 50, 400], [0.25, 0.0, 0.75], 200, np.random.default_rng(0))
    assert len(set(drawn.tolist())) == 200
    first, second, third = np.histogram(drawn, [0, 100, 150, 550])[0]
    assert second == 0
    assert abs(first - 50) < 25
    assert third == 200 - first
    assert drawn.tolist() != sorted(drawn.tolist())
