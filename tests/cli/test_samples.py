"""mixture, score, diagnose and embed on image folders, texts and runs: no Python needed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import genmix as gx
from genmix.cli import app
from genmix.encoders.pixels import PixelsSettings
from tests.support.helpers import Matrix

runner = CliRunner()
SMALL = "pixels 4×4 RGB"
COMMANDS = ("mixture", "score", "diagnose")
ENCODER = """
import numpy as np

print("loading the encoder")


def letters(texts):
    print("embedding", len(texts))
    return np.array([[text.count(c) + 1.0 for c in "abcdefgh"] for text in texts])
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GENMIX_CACHE", str(tmp_path / "cache"))
    return tmp_path


def invoke(*arguments: str) -> Result:
    return runner.invoke(app, list(arguments))


def told(*arguments: str) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    *progress, line = result.stderr.splitlines()
    assert all(re.fullmatch(r"embedding .* \d+/\d+", each) for each in progress), result.stderr
    assert re.fullmatch(r"genmix: [^\n]+[^.]\.", line)
    return line


def paint(folder: Path, count: int, seed: int) -> list[bytes]:
    """Images whose color depends on the seed."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 120, 3)
    for i in range(count):
        pixels = base + rng.integers(0, 120, (6, 6, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i:02}.png")
    return [file.read_bytes() for file in sorted(folder.iterdir())]


def embedded(images: list[bytes], size: int = 4) -> Matrix:
    encoder = PixelsSettings.model_validate({"kind": "pixels", "size": size}).build(Path())
    return encoder.encode([gx_sample(image) for image in images]).astype(np.float64)


def gx_sample(image: bytes) -> Any:
    from genmix.data.samples import Sample

    return Sample(image=image)


@pytest.fixture
def images(folder: Path) -> dict[str, Matrix]:
    """The folders sdxl, pixart and real, a study with a small encoder, and the embeddings."""
    Path("small.yaml").write_text(
        "arms: {a: {kind: recorded, path: sdxl}}\nobjective: vendi\nbudget: {samples: 12}\n"
        "encoder: {kind: pixels, size: 4}\n"
    )
    sizes = {"sdxl": (12, 1), "pixart": (10, 2), "real": (14, 3)}
    return {name: embedded(paint(folder / name, *size)) for name, size in sizes.items()}


def arms_of(images: dict[str, Matrix]) -> dict[str, Matrix]:
    return {name: rows for name, rows in images.items() if name != "real"}


# -- images ------------------------------------------------------------------------------------------


def test_image_folders_to_a_mixture(images: dict[str, Matrix]) -> None:
    found = told("mixture", "sdxl", "pixart", "--encoder", "pixels")
    files = {name: sorted(Path(name).iterdir()) for name in ("sdxl", "pixart")}
    arms = {name: embedded([f.read_bytes() for f in each], 32) for name, each in files.items()}
    expected = gx.optimal_mixture(arms, gx.Vendi())
    assert found["weights"] == pytest.approx(expected.weights, abs=1e-9)
    assert found["loss"] == pytest.approx(expected.loss)
    assert found["scores"]["vendi"]["details"]["encoder"] == "pixels 32×32 RGB"


def test_image_folders_with_a_folder_as_reference(images: dict[str, Matrix]) -> None:
    options = ("--encoder", "small.yaml", "--objective", "kd", "--reference", "real")
    found = told("score", "sdxl", "pixart", *options)
    expected = gx.score(arms_of(images), gx.KernelDistance(images["real"]))
    for name, row in expected.arms.items():
        for score, value in row.items():
            assert found["arms"][name][score]["value"] == pytest.approx(float(value), rel=1e-9)
    result = invoke("diagnose", "sdxl", "pixart", *options)
    assert result.exit_code == 0, result.stderr
    objective = gx.KernelDistance(images["real"])
    assert result.stdout == f"{gx.diagnose(arms_of(images), objective, encoder=SMALL)}\n"


def test_progress_goes_to_stderr_and_the_cache_is_used(
    images: dict[str, Matrix], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = invoke("score", "sdxl", "pixart", "--encoder", "small.yaml")
    assert first.exit_code == 0, first.stderr
    assert "embedding sdxl 12/12" in first.stderr
    assert "embedding" not in first.stdout

    def fail(*_: Any) -> Any:
        raise AssertionError("it is in the cache")

    monkeypatch.setattr("genmix.encoders.pixels.PixelsEncoder.embed", fail)
    assert invoke("score", "sdxl", "pixart", "--encoder", "small.yaml").stdout == first.stdout


def test_without_an_encoder_the_sentence_says_which(images: dict[str, Matrix]) -> None:
    Path("texts.jsonl").write_text('{"text": "a"}\n')
    for command in COMMANDS:
        assert "--encoder pixels, dinov2 or clip" in refused(command, "sdxl")
        assert "--encoder sentence-transformers" in refused(command, "texts.jsonl")
    assert "contains images" in refused("embed", "sdxl", "--out", "f.npz")


def test_what_an_encoder_cannot_embed_is_one_sentence(images: dict[str, Matrix]) -> None:
    Path("texts.jsonl").write_text('{"text": "a"}\n')
    assert "embeds images but received a text" in refused(
        "mixture", "sdxl", "texts.jsonl", "--encoder", "small.yaml"
    )
    Path("sdxl/05.png").write_bytes(b"torn")
    assert "sdxl/05.png is not a complete" in refused("mixture", "sdxl", "--encoder", "small.yaml")
    Path("mixed").mkdir()
    Path("mixed/a.txt").write_text("a")
    assert "mixed contains no images" in refused("mixture", "mixed", "--encoder", "small.yaml")


ENCODERS = [
    ("dino", "did you mean 'dinov2'?"),
    ("nothing like it", "pass sentence-transformers, dinov2, clip"),
    ("absent.py:f", "absent"),
    ("no-module:f", "FILE.py:FUNCTION or MODULE:FUNCTION"),
    ("absent_module:f", "absent_module"),
    ("pixels:large", "has no model to choose"),
    ("openai", "openai:MODEL"),
    ("inception", "inception:PATH"),
    ("absent.yaml", "no study found"),
    ("plain.yaml", "has no encoder"),
]


@pytest.mark.parametrize("given, part", ENCODERS)
def test_encoders_that_do_not_exist(given: str, part: str, images: dict[str, Matrix]) -> None:
    Path("plain.yaml").write_text(
        "arms: {a: {kind: recorded, path: sdxl}}\nobjective: vendi\nbudget: {samples: 12}\n"
    )
    result = invoke("mixture", "sdxl", "pixart", "--encoder", given)
    assert result.exit_code == 2
    assert part in result.stderr
    assert "Traceback" not in result.stderr


def test_the_objective_is_checked_before_anything_is_embedded(images: dict[str, Matrix]) -> None:
    for options in (("--order", "-1"), ("--objective", "fid"), ("--objective", "fd")):
        result = invoke("mixture", "sdxl", "pixart", "--encoder", "small.yaml", *options)
        assert result.exit_code == 2
        assert "embedding" not in result.stderr


# -- texts -------------------------------------------------------------------------------------------

STORIES = {"a": ["bad cab", "a bed", "deaf", "beach"], "b": ["fee", "hedge", "gag a"]}


def write_stories() -> dict[str, Matrix]:
    Path("own.py").write_text(ENCODER)
    rows = [{"text": t, "model_name": name} for name, texts in STORIES.items() for t in texts]
    Path("all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    count = lambda texts: [[text.count(c) + 1.0 for c in "abcdefgh"] for text in texts]  # noqa: E731
    return {name: np.array(count(texts)) for name, texts in STORIES.items()}


@pytest.mark.parametrize("given", ["own.py:letters", "own:letters", "study.yaml", "."])
def test_texts_with_a_function_as_encoder(given: str) -> None:
    arms = write_stories()
    Path("study.yaml").write_text(
        "arms: {a: {kind: recorded, path: all.jsonl}}\nobjective: vendi\nbudget: {samples: 12}\n"
        "encoder: {kind: callable, function: 'own:letters'}\n"
    )
    result = invoke("mixture", "all.jsonl", "--encoder", given, "--json")
    assert result.exit_code == 0, result.stderr
    assert "embedding 4" in result.stderr  # what the function prints does not spoil the JSON
    found = json.loads(result.stdout)
    expected = gx.optimal_mixture(arms, gx.Vendi())
    assert found["weights"] == pytest.approx(expected.weights, abs=1e-6)
    assert found["scores"]["vendi"]["details"]["encoder"].startswith("callable own:letters")


def test_a_function_that_fails_is_one_sentence() -> None:
    write_stories()
    Path("own.py").write_text("def letters(texts):\n    return [len(text) for text in texts][1:]\n")
    assert "returned shape" in refused("mixture", "all.jsonl", "--encoder", "own.py:letters")


# -- runs --------------------------------------------------------------------------------------------


@pytest.fixture
def run(images: dict[str, Matrix]) -> Path:
    arms = {name: {"kind": "recorded", "path": name, "cost": 0.5} for name in ("sdxl", "pixart")}
    study = {
        "arms": {name: {**arm, "exhausted": "retire"} for name, arm in arms.items()},
        "encoder": {"kind": "pixels", "size": 4},
        "objective": "vendi",
        "budget": {"samples": 22},
        "warm_start": 3,
    }
    return gx.run(study, "run", callbacks=()).folder


def test_a_run_folder_through_every_command(run: Path, images: dict[str, Matrix]) -> None:
    # All 22 images were drawn, in another order than the files.
    expected = gx.optimal_mixture(arms_of(images), gx.Vendi(), encoder=SMALL)
    found = told("mixture", "run")
    assert found["weights"] == pytest.approx(expected.weights, abs=1e-6)
    assert found["scores"]["vendi"]["details"]["encoder"] == SMALL
    assert invoke("mixture", "run").stderr == ""  # nothing is embedded again
    table = gx.score(arms_of(images), gx.Vendi())
    scores = told("score", "run")
    for name, row in table.arms.items():
        assert scores["arms"][name]["vendi"]["value"] == pytest.approx(float(row["vendi"]))
    assert set(told("diagnose", "run")["arms"]) == {"sdxl", "pixart"}
    cost = told("score", "run", "--objective", "cost")
    assert cost["pooled"]["cost"]["value"] == 0.5


def test_runs_and_files_together(run: Path, images: dict[str, Matrix]) -> None:
    found = told("mixture", "run", "real", "--encoder", "run")
    assert set(found["weights"]) == {"sdxl", "pixart", "real"}
    assert told("mixture", "run", "real", "--encoder", "small.yaml")["weights"] == found["weights"]
    np.savez("other.npz", features=np.eye(48)[:4], encoder="dinov2")
    assert "was embedded with" in refused("mixture", "run", "other.npz")
    assert "'clip'" in refused("mixture", "run", "--encoder", "clip")
    told("mixture", "run", "--encoder", "pixels")  # a label may be the beginning of the name


# -- embed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["f.npz", "f.parquet"])
def test_embedding_first_gives_the_same_mixture(out: str, images: dict[str, Matrix]) -> None:
    direct = told("mixture", "sdxl", "two=pixart", "--encoder", "small.yaml")
    wrote = told("embed", "sdxl", "two=pixart", "--encoder", "small.yaml", "--out", out)
    assert wrote == {"file": out, "encoder": SMALL, "samples": {"sdxl": 12, "two": 10}}
    assert told("mixture", out) == direct
    options = ("--objective", "fd", "--reference", "real.npz")
    told("embed", "real", "--encoder", "small.yaml", "--out", "real.npz")
    expected = told("score", "sdxl", "two=pixart", *options, "--encoder", "small.yaml")
    assert told("score", out, *options) == expected


def test_embed_keeps_texts_and_numbers() -> None:
    write_stories()
    told("embed", "all.jsonl", "--encoder", "own.py:letters", "--out", "f.parquet")
    from genmix.inputs import load_arms

    first, second = load_arms(["f.parquet"])
    assert list(first.texts or ()) == STORIES["a"]
    assert list(second.texts or ()) == STORIES["b"]


def test_embed_to_a_single_array(images: dict[str, Matrix]) -> None:
    result = invoke("embed", "sdxl", "--encoder", "small.yaml", "--out", "f.npy")
    assert result.stdout == "sdxl: 12 samples\nf.npy\n"
    assert np.array_equal(np.load("f.npy"), images["sdxl"])
    both = ("embed", "sdxl", "pixart", "--encoder", "small.yaml", "--out")
    assert "only one arm" in refused(*both, "g.npy")
    assert "ends in .npz" in refused(*both, "g.txt")
    assert "there is no folder absent for g.npz" in refused(*both, "absent/g.npz")


def test_embed_labels_features_that_exist() -> None:
    np.save("a.npy", np.eye(3))
    told("embed", "a.npy", "--encoder", "dinov2-vitl14", "--out", "b.npz")
    found = told("score", "b.npz")
    assert found["pooled"]["vendi"]["details"]["encoder"] == "dinov2-vitl14"


# -- one list of options, one list of names ----------------------------------------------------------


def test_the_commands_share_their_options() -> None:
    import typer

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    shared = {p.name for p in commands["score"].params}
    assert {"inputs", "encoder", "key", "objective", "reference", "k", "as_json"} <= shared
    for name in ("mixture", "diagnose"):
        mine = {p.name: p.help for p in commands[name].params if p.name in shared}
        assert mine == {p.name: p.help for p in commands["score"].params}


@pytest.mark.parametrize(
    "names", [("fd", "frechet-distance", "FrechetDistance"), ("kd", "kernel-distance")]
)
def test_objectives_have_the_same_names_everywhere(names: tuple[str, ...]) -> None:
    from genmix.study.study import json_schema, study_from

    np.save("a.npy", np.random.default_rng(0).normal(size=(20, 3)))
    study = {"arms": {"a": {"kind": "recorded", "path": "a.npy"}}, "budget": {"samples": 12}}
    kinds, scores = set(), set()
    for name in names:
        kinds.add(study_from({**study, "objective": name, "reference": "a.npy"}).objective[0].kind)
        found = told("score", "a.npy", "--objective", name, "--reference", "a.npy")
        scores.add(found["objective"])
    assert len(kinds) == len(scores) == 1
    assert names[0] in json_schema()["$defs"]["objective"]["anyOf"][0]["enum"]


def test_objectives_of_quality_use_the_numbers_in_a_table() -> None:
    rows = [{"embedding": [1.0, i], "quality": i, "model_name": "ab"[i % 2]} for i in range(6)]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert told("mixture", "a.jsonl", "--objective", "quality")["weights"] == {"a": 0, "b": 1}
