"""The intervals that ``genmix mixture`` prints beside the weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from genmix.cli import app


def mixture(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["mixture", *map(str, arguments)])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two samples of one generator, and a third arm."""
    folder, rng = tmp_path_factory.mktemp("arms"), np.random.default_rng(0)
    shares = {"a": [0.6, 0.4, 0, 0], "b": [0.6, 0.4, 0, 0], "c": [0, 0, 0.5, 0.5]}
    for name, p in shares.items():
        np.save(folder / f"{name}.npy", np.eye(4)[rng.choice(4, 100, p=p)])
    return [folder / f"{name}.npy" for name in shares]


def test_the_table_shows_intervals_and_interchangeable_arms(files: list[Path]) -> None:
    done = mixture(*files)
    assert done.exit_code == 0, done.output
    assert "90% interval" in done.stdout
    assert "above the minimum on these samples" in done.stdout
    assert "other samples: vendi" in done.stdout
    assert "a and b are interchangeable" in done.stdout


def test_json(files: list[Path]) -> None:
    done = mixture(*files, "--json")
    found = json.loads(done.stdout)
    assert found["intervals"]["interchangeable"] == [["a", "b"]]
    for name, (low, high) in found["intervals"]["weights"].items():
        assert low <= found["weights"][name] <= high
    assert found["intervals"]["replicates"] == 200
    assert mixture(*files, "--json").stdout == done.stdout


def test_without_intervals(files: list[Path]) -> None:
    done = mixture(*files, "--no-intervals", "--json")
    assert "intervals" not in json.loads(done.stdout)
    assert "interval" not in mixture(*files, "--no-intervals").stdout


def test_many_arms_have_intervals_only_on_request(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(51, 10, 2))
    paths = [tmp_path / f"{i}.npy" for i in range(len(rows))]
    for path, each in zip(paths, rows, strict=True):
        np.save(path, each)
    done = mixture(*paths, "--json")
    assert done.exit_code == 0
    assert "intervals" not in json.loads(done.stdout)
    assert (
        "no intervals, because they would take long; pass --intervals to compute them"
        in done.stderr
    )
    assert "intervals" in json.loads(mixture(*paths[:50], "--json").stdout)


def test_too_few_samples(tmp_path: Path) -> None:
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.eye(3)[:2])
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    done = mixture(*paths, "--json")
    assert done.exit_code == 0
    assert "no intervals: arm 'a' has 2 samples" in done.stderr
    assert "intervals" not in json.loads(done.stdout)
    asked = mixture(*paths, "--intervals")
    assert asked.exit_code != 0
    assert "intervals need at least 5" in asked.output


def test_a_large_matrix_has_intervals_only_on_request(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genmix.report.run_pool.LARGE_MATRIX", 3)
    done = mixture(*files)
    assert "pass --intervals to compute them" in done.stderr
    assert "interval" not in done.stdout
    assert "90% interval" in mixture(*files, "--intervals").stdout


def test_few_samples_with_many_columns_have_intervals(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(10, 1100)))
    assert "90% interval" in mixture(tmp_path / "a.npy", tmp_path / "b.npy").stdout
