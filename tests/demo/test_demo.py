"""The demo: the bundled generators, the study, and the command."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.demo import STUDY, demo_study
from genmix.demo.digits import draw, embed
from genmix.study.study import read_study, study_from

ARMS = ("gaussian-mixture", "pca-gaussian", "rbm", "kde-most-digits", "kde-three-digits")
BUDGET = 300


def png(image: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("demo") / "run"
    done = CliRunner().invoke(
        app, ["demo", "--budget", str(BUDGET), "--out", str(folder), "--json"]
    )
    assert done.exit_code == 0, done.output
    return folder, json.loads(done.stdout)


@pytest.mark.parametrize("arm", ARMS)
def test_a_generator_draws_one_image_per_seed(arm: str) -> None:
    first, again = draw([1, 2], arm), draw([2, 1], arm)
    assert first[0].shape == (32, 32)
    assert first[0].dtype == np.uint8
    np.testing.assert_array_equal(first[0], again[1])
    assert not np.array_equal(first[0], first[1])


def test_the_embedding_is_that_of_the_reference() -> None:
    images = [png(image) for image in draw(range(300), "gaussian-mixture")]
    reference = gx.read_features(STUDY.with_name("held-out.npz"))
    found = embed(images)
    assert found.shape == (300, reference.dimension)
    assert np.abs(found.mean(axis=0) - reference.mean).max() < 0.2


def test_specialists_draw_different_digits() -> None:
    """Which of the two drew an image can be told from its embedding."""
    few, most = (
        embed([png(image) for image in draw(range(200), arm)])
        for arm in ("kde-three-digits", "kde-most-digits")
    )
    rows, sides = np.concatenate([few, most]), np.repeat([1.0, -1.0], 200)
    plane = np.linalg.lstsq(rows[::2], sides[::2])[0]
    assert np.mean(np.sign(rows[1::2] @ plane) == sides[1::2]) > 0.9


def test_the_bundled_study_is_valid_as_it_is() -> None:
    study = read_study(STUDY)
    assert tuple(study.arms) == ARMS
    assert study.budget.samples == 2000
    given = demo_study(2000, 0, "fd")
    given["reference"] = Path(given["reference"]).name
    assert study_from(given).plain() == study.plain()


def test_it_is_a_run_like_any_other(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, summary = finished
    assert summary["status"] == "finished"
    assert sum(1 for _ in (folder / "samples.jsonl").open()) == BUDGET
    assert len(list((folder / "images").iterdir())) == BUDGET
    assert (folder / "selector.npz").exists()


def test_the_mixture_beats_every_single_generator(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = finished
    weights = json.loads((folder / "weights.json").read_text())["weights"]
    pools = {
        arm: embed([png(image) for image in draw(range(10**6, 10**6 + 500), arm)]) for arm in ARMS
    }
    objective = gx.FrechetDistance(STUDY.with_name("held-out.npz"))
    table = gx.score(pools, objective, weights=weights)
    assert table.mixture is not None
    assert table.mixture[objective.name] < min(row[objective.name] for row in table.arms.values())


def test_calling_it_again_shows_the_same_results(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, summary = finished
    arguments = ["demo", "--budget", str(BUDGET), "--out", str(folder), "--json"]
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 0
    assert json.loads(again.stdout)["weights"] == summary["weights"]
    assert "genmix init" in again.stderr


def test_another_run_in_the_folder_is_left_alone(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = finished
    other = CliRunner().invoke(app, ["demo", "--seed", "7", "--out", str(folder)])
    assert other.exit_code == 2
    assert "contains another run; pass another folder with --out" in other.stderr


def test_vendi_needs_no_reference(tmp_path: Path) -> None:
    arguments = ["demo", "--objective", "vendi", "--budget", "60", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "vendi" in done.stdout
