"""Folders of shards on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import genmix as gx
from genmix.cli import app, notes
from genmix.data import shard_files
from genmix.data import shards as shards_module
from genmix.data.loaded_arm import LoadedArm
from genmix.shards import statistics
from genmix.solvers import swaps
from tests.support.shard_folders import clouds, write_folder

ARMS = clouds(sizes={"a": 60, "b": 40})


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GENMIX_CACHE", str(tmp_path / "cache"))
    for name, rows in ARMS.items():
        write_folder(tmp_path / name, rows, quality=np.linspace(0, 1, len(rows)))
    return


@pytest.fixture
def in_blocks(folders: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards_module, "HELD_BYTES", 8 * 5 * 30)  # 30 samples
    monkeypatch.setattr(shard_files, "BLOCK_VALUES", 50)
    monkeypatch.setattr(swaps, "RESTARTS", 0)


def call(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def result_of(*arguments: Any) -> Any:
    done = call(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_commands_read_folders_in_blocks(in_blocks: None) -> None:
    expected = gx.optimal_mixture(ARMS, gx.Vendi())
    found = call("mixture", "a", "other=b", "--workers", 1, "--json")
    assert "reading shards 10/10" in found.stderr
    assert "no intervals, because" in found.stderr
    weights = list(json.loads(found.stdout)["weights"].items())
    assert [name for name, _ in weights] == ["a", "other"]
    assert [w for _, w in weights] == pytest.approx(list(expected.weights.values()), abs=1e-10)
    scores = result_of("score", "a", "b", "--workers", 1)["pooled"]
    pooled = gx.score(ARMS, gx.Vendi()).pooled["vendi"]
    assert scores["vendi"]["value"] == pytest.approx(pooled, abs=1e-10)
    arms = result_of("diagnose", "a", "b", "--workers", 1)["arms"]
    assert arms["a"]["weight"] == pytest.approx(expected.weights["a"], abs=1e-10)


def test_keep_writes_the_samples_of_shards(in_blocks: None, tmp_path: Path) -> None:
    found = result_of("keep", "a", "b", "--count", 20, "--out", "kept.parquet")
    expected = gx.keep(np.concatenate(list(ARMS.values())), 20, gx.Vendi())
    rows = [*found["rows"]["a"], *(60 + row for row in found["rows"]["b"])]
    assert rows == expected.indices.tolist()
    assert found["bound"] == pytest.approx(expected.bound, rel=1e-10)
    kept = gx.read_features("kept.parquet")
    everything = np.concatenate(list(ARMS.values()))
    np.testing.assert_array_equal(kept.points, everything[rows])  # type: ignore[union-attr]
    assert not [f for f in (tmp_path / "cache").rglob("*") if f.is_file()], "copies are removed"


def test_row_numbers_are_written_without_loading_the_kept_samples(
    in_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoadedArm, "take", None)
    found = result_of("keep", "a", "--count", 40, "--out", "kept.json")
    assert json.loads(Path("kept.json").read_text())["rows"] == found["rows"]


def test_a_wrong_count_is_refused_before_anything_is_copied(
    in_blocks: None, tmp_path: Path
) -> None:
    refused = call("keep", "a", "--count", 61, "--out", "kept.json")
    assert refused.exit_code == 2
    assert "only 60 samples" in refused.stderr
    assert "unpacking" not in refused.stderr
    refused = call("keep", "a", "--count", 5, "--objective", "rke", "--out", "kept.json")
    assert "--kernel gaussian --features 512" in refused.stderr
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]


def test_small_folders_are_like_files(folders: None) -> None:
    found = result_of("mixture", "a", "b")
    assert found["weights"] == gx.optimal_mixture(ARMS, gx.Vendi()).weights
    assert "intervals" in found
    kept = result_of("keep", "a", "b", "--count", 5, "--min-quality", 0.5, "--out", "kept.jsonl")
    assert kept["candidates"] == 50


def test_an_interrupted_command_says_how_to_continue(
    in_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = statistics._summarize, []

    def interrupt(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(statistics, "_summarize", interrupt)
    stopped = call("mixture", "a", "b", "--workers", 1)
    assert stopped.exit_code == 130
    assert "3 of 10 shards are saved; run the same command again to continue" in stopped.stderr
    again = call("mixture", "a", "b", "--workers", 1)
    assert again.exit_code == 0
    assert "continuing after 3 of 10 shards" in again.stderr
    assert len(calls) == 11, "the first three are not read again"


def test_a_folder_of_folders_is_one_arm_and_says_so(folders: None, tmp_path: Path) -> None:
    write_folder(tmp_path / "all" / "a", ARMS["a"])
    assert "one arm" not in call("score", "all").stderr, "one subfolder"
    write_folder(tmp_path / "all" / "b", ARMS["b"])
    noted = call("score", "all")
    assert noted.exit_code == 0
    assert noted.stderr == (
        "genmix: all is read as one arm, although its files are in 2 subfolders; pass all/a all/b to make "
        "each of them an arm.\n"
    )
    for inputs in (["every=all"], ["all/a", "all/b"], ["all", "a"], ["a"]):
        assert "one arm" not in call("score", *inputs).stderr
    np.save(tmp_path / "all" / "more.npy", ARMS["a"])
    assert "one arm" not in call("score", "all").stderr, "files beside the subfolders"


def test_images_in_subfolders_are_one_arm_too(folders: None, tmp_path: Path) -> None:
    for name in ("x", "y", "z"):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.new("L", (4, 4), ord(name)).save(tmp_path / "images" / name / "1.png")
    noted = call("score", "images", "--encoder", "pixels")
    assert "files are in 3 subfolders; pass images/x images/y … to make" in noted.stderr


@pytest.mark.parametrize(
    "options, note",
    [
        (
            ["--objective", "rke"],
            "comparing 100 samples with each other can take minutes; use --features",
        ),
        (["--objective", "vendi + rke"], "comparing 100 samples"),
        (["--objective", "kd", "--reference", "b"], "comparing 140 samples"),
        (
            ["--objective", "kd", "--reference", "b", "--kernel", "polynomial"],
            "can take minutes.\n",
        ),
        (["--objective", "rke", "--features", "8"], ""),
        (["--objective", "rke", "--kernel", "cosine"], ""),
        (["--objective", "vendi"], ""),
    ],
)
def test_an_exact_kernel_of_many_samples_is_announced(
    options: list[str], note: str, folders: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "can take minutes" not in call("score", "a", "b", *options).stderr
    monkeypatch.setattr(notes, "MANY_PAIRS", 100**2 - 1)
    for command in ("score", "mixture", "diagnose"):
        found = call(command, "a", "b", *options)
        assert found.exit_code == 0, found.stderr
        assert note in found.stderr
        assert ("can take minutes" in found.stderr) == bool(note)


def test_a_refused_kernel_is_not_announced(
    in_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "MANY_PAIRS", 1)
    refused = call("score", "a", "b", "--objective", "rke", "--workers", 1)
    assert "do not fit in memory" in refused.stderr
    assert "can take minutes" not in refused.stderr


def test_kept_lines_have_the_quality_only_if_all_arms_do(folders: None, tmp_path: Path) -> None:
    write_folder(tmp_path / "plain", ARMS["a"])
    for inputs, expected in ((["a", "b"], True), (["plain", "b"], False)):
        call("keep", *inputs, "--count", 50, "--out", "kept.jsonl")
        kept = [json.loads(line) for line in Path("kept.jsonl").read_text().splitlines()]
        assert {line["model_name"] for line in kept} == set(inputs)
        assert [("quality" in line) for line in kept] == [expected] * 50
        assert all("embedding" in line for line in kept)


def test_a_folder_as_a_reference(in_blocks: None) -> None:
    found = result_of("score", "a", "--objective", "fd", "--reference", "b", "--workers", 1)
    expected = gx.score({"a": ARMS["a"]}, gx.FrechetDistance(ARMS["b"])).pooled
    value = found["pooled"]["frechet_distance"]["value"]
    assert value == pytest.approx(float(expected["frechet_distance"]), abs=1e-10)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["mixture", "a/0.npz", "--engine", "ray"], "--engine is for folders of shards"),
        (["mixture", "a/0.npz", "--workers", "2"], "--workers is for folders of shards"),
        (["mixture", "a", "--intervals", "--workers", "1"], "requires them in memory"),
        (
            ["mixture", "a", "--objective", "rke", "--workers", "1"],
            "--kernel gaussian --features 512",
        ),
        (["mixture", "a", "--address", "auto"], "use the ray engine"),
        (["mixture", "a", "--key", "reps"], "0.npz has no array 'reps', only features, quality;"),
        (
            ["mixture", "a/2.parquet", "--key", "reps"],
            "there is no column 'reps'; the columns are embedding, quality;",
        ),
        (["embed", "a", "--out", "all.npz"], "a is a folder of embeddings"),
        (["keep", "a", "--count", "31", "--out", "k.npz"], "--out NAME.json"),
        (["keep", "a", "--count", "3", "--out", "k.npz", "--workers", "2"], "remove --workers"),
        (["keep", "a", "--count", "3", "--out", "k.npz", "--predict", "9"], "remove the option"),
    ],
)
def test_refusals(arguments: list[str], message: str, in_blocks: None) -> None:
    refused = call(*arguments)
    assert refused.exit_code == 2
    assert message in refused.stderr


def test_a_folder_of_several_models_is_refused(folders: None, tmp_path: Path) -> None:
    rows = ARMS["a"]
    write_folder(tmp_path / "mixed", rows, model_name=np.array(["x", "y"] * 30))
    refused = call("mixture", "mixed")
    assert refused.exit_code == 2
    assert "one folder per model" in refused.stderr
