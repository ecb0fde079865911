"""What load_arms reads: features, images, tables and runs, with their labels and columns."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import genmix as gx
from genmix.data.features import Statistics, write_statistics
from genmix.data.loaded_arm import LoadedArm
from genmix.errors import InputError, StorageError
from genmix.inputs import load_arms, load_samples
from tests.support.helpers import Matrix

RNG = np.random.default_rng(0)
ROWS: Matrix = RNG.standard_normal((6, 3))
TEXTS = ["one", "two, with a comma", "three\nlines", "four", "five", 'six "quoted"']


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GENMIX_CACHE", str(tmp_path / "cache"))
    return tmp_path


def one(argument: str, key: str | None = None) -> LoadedArm:
    (found,) = load_arms([argument], key)
    return found


def refused(*arguments: str, key: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load_arms(arguments, key)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def write_lines(path: str, *rows: Any) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


# -- texts -------------------------------------------------------------------------------------------


def write_texts(path: str, **columns: list[Any]) -> None:
    """The texts in any format, with further columns."""
    table = {"text": TEXTS, **columns}
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    if path.endswith(".parquet"):
        pq.write_table(pa.table(table), path)
    elif path.endswith(".csv"):
        import csv

        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(table))
            writer.writeheader()
            writer.writerows(rows)
    else:
        write_lines(path, *rows)


@pytest.mark.parametrize("path", ["mine.jsonl", "mine.csv", "mine.parquet"])
def test_a_table_of_texts(path: str) -> None:
    ids, numbers = ["a", "b", "c", "d", "e", "f"], [0.5, 1, 2, 3, 4, 5.25]
    write_texts(path, quality=numbers, cost=numbers, sample_id=ids)
    arm = one(path)
    assert (arm.label, arm.source, len(arm), arm.content) == ("mine", path, 6, "texts")
    assert list(arm.texts or ()) == TEXTS
    assert arm.features is None
    assert list(arm.quality) == list(arm.cost) == numbers
    assert arm.sample_ids == ids
    assert [get().text for _, get in arm.items()] == TEXTS


@pytest.mark.parametrize("path", ["all.jsonl", "all.csv", "all.parquet"])
def test_the_model_of_each_sample_makes_the_arms(path: str) -> None:
    write_texts(path, model_name=["x", "y", "x", "y", "z", "x"], cost=[1, 2, 3, 4, 5, 6])
    found = load_arms([path])
    assert [(arm.label, len(arm)) for arm in found] == [("x", 3), ("y", 2), ("z", 1)]
    assert list(found[1].texts or ()) == [TEXTS[1], TEXTS[3]]
    assert list(found[1].cost) == [2, 4]
    assert [arm.label for arm in load_arms([f"old={path}"])] == ["old/x", "old/y", "old/z"]


def test_one_model_is_one_arm_with_the_given_name() -> None:
    write_texts("all.jsonl", model_name=["x"] * 6)
    assert one("all.jsonl").label == "x"
    assert one("mine=all.jsonl").label == "mine"


def test_lines_of_a_text_file_are_texts() -> None:
    Path("words.txt").write_text("a city\n\n  a river \n", encoding="utf-8")
    assert list(one("words.txt").texts or ()) == ["a city", "a river"]


@pytest.mark.parametrize("path", ["mine.jsonl", "mine.csv", "mine.parquet"])
def test_a_key_names_the_texts(path: str) -> None:
    write_texts(path, story=[f"story {i}" for i in range(6)])
    assert list(one(path, "story").texts or ())[5] == "story 5"


def test_a_number_that_some_samples_lack_is_left_out() -> None:
    write_lines("a.jsonl", {"text": "x", "cost": 1, "quality": 2}, {"text": "y", "quality": 3})
    arm = one("a.jsonl")
    assert arm.cost is None
    assert list(arm.quality) == [2, 3]


# -- images ------------------------------------------------------------------------------------------


def paint(path: Path, value: int = 9) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (value, value, value)).save(path)


def test_a_folder_of_images(folder: Path) -> None:
    for name in ("b.png", "a.webp", "sub/c.png", ".hidden.png"):
        paint(folder / "cats" / name)
    Path("cats/notes.txt").write_text("not an image")
    arm = one("cats")
    assert (arm.label, arm.content) == ("cats", "images")
    assert [str(image) for image in arm.images or ()] == [
        "cats/a.webp",
        "cats/b.png",
        "cats/sub/c.png",
    ]
    assert one("mine=cats/").label == "mine"


def test_a_table_names_images_in_its_folder(folder: Path) -> None:
    paint(folder / "run" / "images" / "1.png")
    write_lines("run/samples.jsonl", {"image_path": "images/1.png", "text": None})
    write_lines("run/two.jsonl", {"image_path": "images/1.png", "model_name": "m"})
    arm = one("run/two.jsonl")
    assert (arm.label, arm.images) == ("m", [Path("run/images/1.png")])
    paint(folder / "secret.png")
    for name in ("../secret.png", "absent.png"):
        write_lines("run/bad.jsonl", {"image_path": name})
        assert "line 1" in refused("run/bad.jsonl")


# -- features ----------------------------------------------------------------------------------------


def test_features_with_everything_known_of_them() -> None:
    models = np.array(["x", "y"] * 3)
    np.savez("f.npz", features=ROWS, model_name=models, cost=np.arange(6), encoder="clip")
    x, y = load_arms(["f.npz"])
    assert (x.label, y.label, x.encoder) == ("x", "y", "clip")
    assert np.array_equal(x.features, ROWS[::2])
    assert list(y.cost) == [1, 3, 5]
    np.savez("g.npz", features=ROWS, model_name=models[:4])
    assert "number of samples is 6" in refused("g.npz")


def test_embeddings_and_texts_in_one_table() -> None:
    write_texts("a.parquet", embedding=ROWS.tolist())
    arm = one("a.parquet")
    assert np.array_equal(arm.features, ROWS)
    assert list(arm.texts or ()) == TEXTS
    write_lines("b.jsonl", *({"embedding": row} for row in ROWS.tolist()))
    assert np.array_equal(one("b.jsonl").features, ROWS)


def test_statistics_are_a_reference_but_not_an_arm() -> None:
    write_statistics("s.npz", ROWS.mean(0), np.cov(ROWS.T), 6)
    assert isinstance(load_samples(Path("s.npz")), Statistics)
    assert "only mu and sigma" in refused("s.npz")


def test_rows_can_be_taken_and_arms_joined() -> None:
    np.savez("f.npz", features=ROWS, quality=np.arange(6.0))
    arm = one("f.npz").take([4, 0])
    assert np.array_equal(arm.features, ROWS[[4, 0]])
    np.save("g.npy", ROWS[:1])
    both = arm.joined(one("g.npy"))
    assert len(both) == 3
    assert both.quality is None


# -- runs --------------------------------------------------------------------------------------------


def make_run(name: str, seed: int = 0, **arm: Any) -> Path:
    """A run of 40 samples from two recorded arms, the first of which has costs."""
    rows = np.random.default_rng(1).standard_normal((2, 60, 3))
    np.savez("a.npz", features=rows[0], cost=np.full(60, 0.25))
    np.save("b.npy", rows[1])
    arms = {
        "a": {"kind": "recorded", "path": "a.npz", **arm},
        "b": {"kind": "recorded", "path": "b.npy"},
    }
    study = {"arms": arms, "objective": "vendi", "budget": {"samples": 40}, "seed": seed}
    return gx.run(study, name, callbacks=()).folder


def test_the_arms_of_a_run() -> None:
    folder = make_run("run")
    found = {arm.label: arm for arm in load_arms([str(folder)])}
    told = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    stored = np.concatenate([np.load("a.npz")["features"], np.load("b.npy")])
    for label, arm in found.items():
        mine = [row for row in told if row["model_name"] == label]
        assert arm.sample_ids == [row["sample_id"] for row in mine]
        assert list(arm.cost) == [row["cost"] for row in mine]
        rows = [int(row["source"].split("#")[1]) + 60 * (label == "b") for row in mine]
        assert np.array_equal(arm.features, stored[rows])
        assert arm.encoder is None
    assert [arm.label for arm in load_arms([f"old={folder}"])] == ["old/a", "old/b"]
    assert len(load_samples(folder)) == 40  # type: ignore[arg-type]


def test_runs_of_the_same_generators_are_joined() -> None:
    first, second = make_run("first"), make_run("second", seed=1)
    joined = load_arms([str(first), str(second)])
    assert [arm.label for arm in joined] == ["a", "b"]
    assert sum(map(len, joined)) == 80
    other = make_run("other", shuffle=False)
    assert "first=first second=other" in refused(str(first), str(other))
    named = load_arms([str(first), f"new={other}"])
    assert [arm.label for arm in named] == ["a", "b", "new/a", "new/b"]


def test_a_run_that_was_changed_is_refused() -> None:
    folder = make_run("run")
    with closing(sqlite3.connect(folder / "journal.sqlite")) as journal, journal:
        journal.execute("UPDATE samples SET cost = 7")
    with pytest.raises(StorageError):
        load_arms([str(folder)])


# -- what is refused ---------------------------------------------------------------------------------


def test_what_cannot_be_read_is_one_sentence(folder: Path) -> None:
    Path("empty").mkdir()
    assert "no images" in refused("empty")
    assert "no file or folder" in refused("absent")
    assert "no file or folder" in refused("x" * 400)
    Path("empty.jsonl").write_text("")
    assert "no samples" in refused("empty.jsonl")
    Path("empty.csv").write_text("text,cost\n")
    assert "no samples" in refused("empty.csv")
    Path("bad.jsonl").write_text('{"text": "a"}\nnot json\n')
    assert "line 2" in refused("bad.jsonl")
    write_lines("half.jsonl", {"text": "a"}, {"txt": "b"})
    assert "line 2 has no text" in refused("half.jsonl")
    write_lines("other.jsonl", {"title": "a"})
    assert "columns title" in refused("other.jsonl")
    write_lines("cost.jsonl", {"text": "a", "cost": -1})
    assert "line 1 has cost -1" in refused("cost.jsonl")
    Path("wide.csv").write_text("text\na, b\n")
    assert "line 2 has more values" in refused("wide.csv")
    Path("open.csv").write_text('text\n"a\n')
    assert "not valid CSV" in refused("open.csv")
    Path("words.csv").write_text("text,cost\na,much\n")
    assert "cost is 'much'" in refused("words.csv")
    Path("bad.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    assert "not a readable Parquet file" in refused("bad.parquet")
    Path("latin.csv").write_bytes("text\ncafé\n".encode("latin-1"))
    assert "UTF-8" in refused("latin.csv")
    write_lines("models.jsonl", {"text": "a", "model_name": "m"}, {"text": "b"})
    assert "sample 1 has no model_name" in refused("models.jsonl")


def test_a_small_file_that_would_fill_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_MAX_BYTES", "100000")
    pq.write_table(pa.table({"text": ["x" * 1000] * 2000}), "bomb.parquet")
    assert Path("bomb.parquet").stat().st_size < 10_000
    assert "GENMIX_MAX_BYTES" in refused("bomb.parquet")
    write_lines("long.jsonl", {"text": "x" * 10_000})
    assert "GENMIX_MAX_BYTES" in refused("long.jsonl")
    Image.new("L", (2000, 2000)).save("big.png")
    Path("images").mkdir()
    Path("big.png").rename("images/big.png")
    ((_, read),) = one("images").items()
    with pytest.raises(InputError, match="GENMIX_MAX_BYTES"):
        read()
