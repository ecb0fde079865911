"""What ``genmix keep`` writes can be joined with the export of a run, and read in Python."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import genmix as gx
from genmix.cli import app

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "keep.md"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GENMIX_REPORT", "off")
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def lines(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def speak(seeds: list[int]) -> list[dict[str, Any]]:
    return [{"text": f"{seed % 7} words", "prompt": f"Say {seed % 3}."} for seed in seeds]


def embed(texts: list[str]) -> Any:
    return np.array([[float(text[0]), float(text[0]) ** 2, 1.0] for text in texts])


def run_study(**more: Any) -> gx.Run:
    arms = {"low": speak, "high": lambda seeds: speak([seed // 7 for seed in seeds])}
    study = {"arms": arms, "encoder": embed, "objective": gx.Vendi(), "budget": {"samples": 60}}
    return gx.run(study | more, "runs/first")


def test_kept_samples_join_with_the_export_and_have_their_prompts() -> None:
    run_study()
    result = invoke("keep", "runs/first", "--count", "9", "--out", "kept.jsonl")
    assert result.exit_code == 0, result.stderr
    every = {row["sample_id"]: row for row in lines(gx.export("runs/first", "jsonl"))}
    kept = lines("kept.jsonl")
    assert len(kept) == 9
    for row in kept:
        assert row.items() <= every[row["sample_id"]].items()
        assert row["prompt"].startswith("Say ")
    again = invoke(
        "keep", "kept.jsonl", "--count", "3", "--out", "-", "--encoder", f"{__name__}:embed"
    )
    assert {row["sample_id"] for row in map(json.loads, again.stdout.splitlines())} <= set(every)


def test_ids_of_other_files_stay_as_they_are() -> None:
    Path("mixed.jsonl").write_text(
        "".join(
            json.dumps({"sample_id": i, "text": f"{k} words"}) + "\n"
            for k, i in enumerate([1, "two", 3])
        )
    )
    command = ("--count", "2", "--out", "kept.npz", "--encoder", f"{__name__}:embed")
    assert invoke("keep", "mixed.jsonl", *command).exit_code == 0
    with np.load("kept.npz") as content:
        assert content["sample_id"].dtype.kind == "U"
    big = np.arange(4) + 2**40
    np.savez("big.npz", features=np.eye(4), sample_id=big)
    assert invoke("keep", "big.npz", "--count", "4", "--out", "kept.npz").exit_code == 0
    with np.load("kept.npz") as content:
        assert content["sample_id"].tolist() == big.tolist()


def test_feature_files_can_be_passed_to_every_function() -> None:
    np.save("a.npy", np.eye(4)[[0, 0, 1, 2, 3, 3]])
    rows, found = np.load("a.npy"), gx.read_features("a.npy")
    assert gx.keep(found, 4, gx.Vendi()).score == pytest.approx(4.0)
    assert gx.optimal_mixture({"a": found}, gx.Vendi()).score == pytest.approx(
        gx.optimal_mixture({"a": rows}, gx.Vendi()).score
    )
    assert np.asarray(found, dtype=np.float32).dtype == np.float32


def test_other_objects_are_refused_by_name() -> None:
    with pytest.raises(gx.InputError, match=r"^X is a dict; pass one array of shape"):
        gx.keep({"a": np.eye(3)}, 2, gx.Vendi())
    np.savez("moments.npz", mu=np.zeros(2), sigma=np.eye(2))
    with pytest.raises(gx.InputError, match=r"^X is a Moments; pass one array of shape"):
        gx.keep(gx.read_features("moments.npz"), 2, gx.Vendi())


def test_the_guide_keeps_samples_of_a_run() -> None:
    run_study()
    section = GUIDE.read_text("utf-8").split("### The samples of a run")[1]
    code = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    found: dict[str, Any] = {}
    exec(code, found)
    assert len(found["dataset"]) == 30
    assert {row["sample_id"] for row in found["dataset"]} == found["chosen"]
    (short,) = re.findall(r"`(gx\.keep\(gx\.read_features\(.*?\)\))`", section.split("\n## ")[0])
    assert len(eval(short, {"gx": gx}).indices) == 30
