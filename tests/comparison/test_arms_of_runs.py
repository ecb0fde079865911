"""Which arms of a run take part in a comparison, and how its text and charts are labeled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.comparison.presentation import comparison_charts


@pytest.fixture
def study(tmp_path: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    arms = {}
    for i, name in enumerate("abc"):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(60, 3)) + 3 * np.eye(3)[i])
        arms[name] = {"kind": "recorded", "path": str(tmp_path / f"{name}.npy")}
    return {"arms": arms, "objective": "vendi", "budget": {"samples": 40}, "warm_start": 4}


def removing(study: dict[str, Any], *names: str) -> dict[str, Any]:
    left = {name: arm for name, arm in study["arms"].items() if name not in names}
    return study | {"arms": left, "budget": {"samples": 60}}


def compare(folder: Path) -> gx.Comparison:
    return gx.compare(folder, ["mixture-greedy", "uniform"], 1, budget=40, workers=1)


def test_arms_that_were_removed_from_the_study_take_part(
    study: dict[str, Any], tmp_path: Path
) -> None:
    gx.run(study, tmp_path / "run")
    run = gx.resume(tmp_path / "run", study=removing(study, "a", "c"))
    found = compare(tmp_path / "run")
    assert {arm: len(pool) for arm, pool in found.plan.world.arms.items()} == run.counts


def test_one_arm_is_refused(study: dict[str, Any], tmp_path: Path) -> None:
    alone = removing(study, "b", "c")
    gx.run(alone, tmp_path / "run")
    expected = (
        "has samples of only one arm, 'a', but policies choose between arms; use at least two"
    )
    for given in (tmp_path / "run", alone):
        with pytest.raises(gx.InputError, match=expected):
            gx.compare(given, ["uniform"], 1, workers=1)


def test_numbers_and_axes_are_labeled(study: dict[str, Any]) -> None:
    found = gx.compare(study, ["mixture-greedy", "uniform"], 1, workers=1)
    assert "1 paired repeat of 40 samples" in str(found)
    assert "e+00" not in str(found)
    for chart in comparison_charts(found).values():
        assert "samples drawn (log scale)" in chart.to_json()
