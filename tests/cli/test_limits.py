"""Limits on the weights on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app


@pytest.fixture
def arms(tmp_path: Path) -> dict[str, str]:
    rng = np.random.default_rng(0)
    for name, spread in (("a", 1.0), ("b", 0.2)):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(30, 4)) * spread + 1)
    return {name: str(tmp_path / f"{name}.npy") for name in ("a", "b")}


def mixture(arms: dict[str, str], *options: str) -> str:
    result = CliRunner().invoke(app, ["mixture", *arms.values(), "--no-intervals", *options])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_limits_are_those_of_the_library(arms: dict[str, str]) -> None:
    found = json.loads(mixture(arms, "--at-least", "b=0.4", "--at-most", "a=0.55", "--json"))
    loaded = {name: np.load(path) for name, path in arms.items()}
    limits = {"at_least": {"b": 0.4}, "at_most": {"a": 0.55}}
    expected = gx.optimal_mixture(loaded, gx.Vendi(), **limits)  # type: ignore[arg-type]
    assert found["weights"] == pytest.approx(expected.weights, abs=1e-12)
    assert found["binding"] == list(expected.binding) == ["at_most a"]
    assert "limits reached: at_most a" in mixture(arms, "--at-most", "a=0.55")


def test_a_budget_per_sample_uses_the_costs_of_the_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [
        {"model_name": arm, "embedding": rng.normal(size=3).tolist(), "cost": cost}
        for arm, cost in (("dear", 2.0), ("cheap", 1.0))
        for _ in range(20)
    ]
    table = tmp_path / "samples.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = json.loads(mixture({"all": str(table)}, "--mean-cost", "1.25", "--json"))
    assert found["weights"]["dear"] <= 0.25 + 1e-12
    assert found["price_of_money"] >= 0


@pytest.mark.parametrize("given", ["b", "=0.4", "b=", "b=much"])
def test_a_share_that_cannot_be_read_is_explained(arms: dict[str, str], given: str) -> None:
    result = CliRunner().invoke(app, ["mixture", *arms.values(), "--at-least", given])
    assert result.exit_code == 2
    assert "pass an arm and its share, e.g. --at-least a=0.1." in " ".join(result.stderr.split())
