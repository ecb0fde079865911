"""Commands on the samples of a run that embedded its prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app

PROMPTS = np.eye(3)


def answers(modes: int) -> Any:
    def answer(seeds: list[int], prompts: list[str]) -> list[Any]:
        return [np.eye(4)[np.random.default_rng(seed).integers(modes)].tolist() for seed in seeds]

    return answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pairs")
    rows = [{"text": f"prompt {i}", "v": PROMPTS[i].tolist()} for i in range(3)]
    (place / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    plain = {
        "arms": {"few": answers(2), "many": answers(4)},
        "prompts": {"file": str(place / "prompts.jsonl"), "embedding": "v", "repeat": 12},
        "objective": "vendi",
        "policy": "dak-ucb",
        "warm_start": 3,
        "retries": {"attempts": 1, "first_wait": 0},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_REPORT", "off")
        return gx.run(plain, place / "run").folder


def pairs(folder: Path) -> dict[str, Any]:
    """The pairs of each arm, from the journal's samples and the file of prompts."""
    found: dict[str, list[Any]] = {}
    for arm in gx.Run(folder).samples():
        found.setdefault(arm["model_name"], []).append(PROMPTS[arm["prompt_id"]])
    return {arm: np.array(rows) for arm, rows in found.items()}


def test_score_compares_pairs_with_the_joint_kernel(folder: Path) -> None:
    options = ["--kernel", "joint", "--bandwidth", "0.5", "--json"]
    result = CliRunner().invoke(app, ["score", str(folder), *options])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["pooled"]["vendi"]
    from genmix.inputs import load_arms

    arms = {arm.label: arm for arm in load_arms([str(folder)])}
    for label, prompts in pairs(folder).items():
        assert arms[label].prompt_features.tolist() == prompts.tolist()  # type: ignore[union-attr]
    rows = {a: np.hstack([arm.prompt_features, arm.features]) for a, arm in arms.items()}  # type: ignore[list-item]
    kernel = gx.Joint(3, gx.Gaussian(0.5), gx.Gaussian(0.5))
    expected = gx.score(rows, gx.Vendi(kernel=kernel)).pooled["vendi"]
    assert found["value"] == pytest.approx(float(expected), abs=1e-9)
    assert float(found["details"]["conditional"]) == pytest.approx(
        expected.details["conditional"], abs=1e-9
    )
    assert float(found["details"]["prompt entropy"]) == pytest.approx(
        np.log(expected.details["prompts"]), abs=1e-9
    )


def test_mixture_and_keep_compare_pairs_too(folder: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    mixture = runner.invoke(app, ["mixture", str(folder), "--kernel", "joint", "--no-intervals"])
    assert mixture.exit_code == 0, mixture.output
    assert "conditional" in mixture.stdout
    out = tmp_path / "kept.jsonl"
    options = ["--kernel", "joint", "--count", "9", "--out", str(out)]
    kept = runner.invoke(app, ["keep", str(folder), *options])
    assert kept.exit_code == 0, kept.output
    first = json.loads(out.read_text("utf-8").splitlines()[0])
    assert len(first.get("embedding", [0] * 4)) == 4  # the answer alone


def test_samples_without_prompts_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(4))
    result = CliRunner().invoke(app, ["score", str(tmp_path / "a.npy"), "--kernel", "joint"])
    assert result.exit_code != 0
    assert "no embeddings of prompts" in result.output
