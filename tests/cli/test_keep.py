"""genmix keep on texts, image folders, feature files and runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import genmix as gx
from genmix.cli import app
from genmix.offline import keeping

runner = CliRunner()
ENCODER = """
import numpy as np

def letters(texts):
    return np.array([[text.count(c) + 0.01 for c in "abcdefgh"] for text in texts])
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GENMIX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GENMIX_REPORT", "off")
    (tmp_path / "mine.py").write_text(ENCODER)
    return tmp_path


def invoke(*arguments: str) -> Result:
    return runner.invoke(app, ["keep", *arguments])


def kept(*arguments: str) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(*arguments: str) -> str:
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr.splitlines()[-1]


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def write_texts(count: int = 40) -> list[dict[str, Any]]:
    """Many texts of one letter, and a few of others."""
    letters = "a" * (count - 6) + "bcdefg"
    rows = [
        {"sample_id": f"t{i}", "model_name": "xy"[i % 2], "text": letter * 3 + f" {i}"}
        | {"quality": i / count, "cost": 0.5}
        for i, letter in enumerate(letters)
    ]
    Path("texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def write_features(name: str = "f.npz", count: int = 60, outliers: int = 0) -> Any:
    rng = np.random.default_rng(0)
    rows = [4.0, 0, 0, 0, 0] + 0.2 * rng.normal(size=(count, 5))
    if outliers:
        rows[-outliers:] = 9 * rng.normal(size=(outliers, 5))
    np.savez(name, features=rows)
    return rows


def test_texts_come_back_as_they_were() -> None:
    rows = write_texts()
    found = kept("texts.jsonl", "--count", "8", "--encoder", "mine.py:letters", "--out", "k.jsonl")
    written = lines("k.jsonl")
    assert len(written) == found["count"] == 8
    assert all(row in rows for row in written)
    assert {row["text"][0] for row in written} == set("abcdefg")
    assert found["scores"]["vendi"]["value"] > found["all_scores"]["vendi"]["value"]
    assert found["scores"]["vendi"]["value"] <= found["bound"] + 1e-9
    assert found["scores"]["vendi"]["details"]["encoder"].startswith("callable mine:letters")
    by_arm = {arm: [r for r in rows if r["model_name"] == arm] for arm in "xy"}
    again = [by_arm[arm][i] for arm, chosen in found["rows"].items() for i in chosen]
    assert again == written


def test_the_table_says_what_was_compared() -> None:
    write_features(outliers=5)
    result = invoke("f.npz", "--share", "0.1", "--out", "k.npz")
    assert result.exit_code == 0, result.stderr
    for words in ("all ", "random (5 sets)", "kept ", "bound ", "kernel Cosine(), n 6", "loose"):
        assert words in result.stdout
    assert "genmix: warning: the share of samples within the neighborhoods" in result.stderr
    assert "diversity alone prefers outliers" in result.stderr
    assert "0.5*precision' --reference PATH" in result.stderr


def test_samples_that_remain_faithful_do_not_warn() -> None:
    rows = write_features(outliers=5)
    np.save("real.npy", rows[:55])
    more = ("--objective", "vendi + 20*precision", "--reference", "real.npy")
    result = invoke("f.npz", "--count", "20", "--out", "k.npz", *more)
    assert result.exit_code == 0
    assert "warning" not in result.stderr
    assert "in the neighborhoods of the reference" in result.stdout


def test_features_of_several_files() -> None:
    first, second = write_features("a.npz"), 2 * write_features("b.npz", 30)
    np.savez("b.npz", features=second)
    found = kept("a.npz", "b.npz", "--count", "9", "--at-least-per-arm", "4", "--out", "k.npz")
    with np.load("k.npz") as content:
        features, models = content["features"], content["model_name"].tolist()
    assert [len(chosen) for chosen in found["rows"].values()] in ([4, 5], [5, 4])
    assert features.tolist() == [
        *first[found["rows"]["a"]].tolist(),
        *second[found["rows"]["b"]].tolist(),
    ]
    assert models == sorted(models)
    expected = gx.score({"k": features}, gx.Vendi()).pooled["vendi"]
    assert found["scores"]["vendi"]["value"] == pytest.approx(float(expected))


def test_images_by_path(folder: Path) -> None:
    (folder / "pics").mkdir()
    for i in range(9):
        pixels = np.zeros((4, 4, 3), dtype=np.uint8)
        pixels[..., i % 3] = 255
        Image.fromarray(pixels).save(folder / "pics" / f"{i}.png")
    kept("pics", "--count", "3", "--encoder", "pixels", "--out", "k.jsonl")
    names = [row["image_path"] for row in lines("k.jsonl")]
    assert sorted(int(Path(name).stem) % 3 for name in names) == [0, 1, 2]
    kept("pics", "--count", "3", "--encoder", "pixels", "--out", "k.parquet")
    assert kept("k.parquet", "--count", "3", "--out", "k.json")["gap"] <= 1e-6
    (folder / "elsewhere").mkdir()
    kept("pics", "--count", "3", "--encoder", "pixels", "--out", "elsewhere/k.jsonl")
    assert Path(lines("elsewhere/k.jsonl")[0]["image_path"]).is_file()


def test_a_run_folder() -> None:
    rows = write_texts()
    arms = {"x": {"kind": "recorded", "path": "texts.jsonl"}}
    encoder = {"kind": "callable", "function": "mine:letters"}
    study = {"arms": arms, "encoder": encoder, "objective": "vendi", "budget": {"samples": 40}}
    gx.run(study, "run")
    kept("run", "--count", "7", "--out", "k.jsonl")
    assert {row["text"][0] for row in lines("k.jsonl")} == set("abcdefg")
    assert {row["text"] for row in lines("k.jsonl")} <= {row["text"] for row in rows}


def test_sums_with_quality() -> None:
    write_texts()
    arguments = ("texts.jsonl", "--count", "8", "--encoder", "mine.py:letters", "--out", "k.json")
    alone = kept(*arguments)
    both = kept(*arguments, "--objective", "vendi + 5*quality")
    assert both["bound"] is None
    assert both["loss_bound"] <= both["loss"]
    assert both["measures"]["quality"]["kept"] > alone["measures"]["quality"]["kept"]
    assert json.loads(Path("k.json").read_text())["rows"] == both["rows"]
    good = kept(*arguments, "--min-quality", "0.5")
    quality = [row["quality"] for row in write_texts()]
    by_arm = {"x": quality[::2], "y": quality[1::2]}
    assert min(by_arm[arm][i] for arm, chosen in good["rows"].items() for i in chosen) >= 0.5


def test_a_sum_works_in_the_other_commands() -> None:
    write_texts()
    command = [
        "score",
        "texts.jsonl",
        "--encoder",
        "mine.py:letters",
        "--objective",
        "vendi+quality",
    ]
    result = runner.invoke(app, [*command, "--json"])
    assert set(json.loads(result.stdout)["pooled"]) == {"vendi", "quality"}


def test_samples_on_stdout() -> None:
    write_texts()
    result = invoke("texts.jsonl", "--count", "8", "--encoder", "mine.py:letters", "--out", "-")
    assert result.exit_code == 0
    assert len([json.loads(line) for line in result.stdout.splitlines()]) == 8
    assert "random (5 sets)" in result.stderr


def test_ctrl_c_writes_the_best_set_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    write_features(count=200)
    original = keeping.keep

    def interrupted(*arguments: Any, progress: Any, **more: Any) -> gx.Kept:
        def stop(now: Any) -> None:
            progress(now)
            raise KeyboardInterrupt

        return original(*arguments, progress=stop, **more)

    monkeypatch.setattr(keeping, "keep", interrupted)
    result = invoke("f.npz", "--count", "20", "--out", "k.npz", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["interrupted"]) == (130, True)
    assert "interrupted; the best samples so far were kept." in result.stderr
    assert found["scores"]["vendi"]["value"] <= found["bound"] + 1e-9
    with np.load("k.npz") as content:
        assert len(content["features"]) == 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "pass either --count or --share"),
        (("--count", "3", "--share", "0.3"), "pass either --count or --share"),
        (("--count", "0"), "--count is 0; pass a whole number of at least 1."),
        (("--share", "1.5"), "--share is 1.5; pass a number greater than 0 and at most 1."),
        (("--count", "61"), "--count is 61, but there are only 60 samples"),
        (
            ("--count", "3", "--min-quality", "1"),
            "has no quality, which --min-quality needs",
        ),
        (("--count", "3", "--objective", "vendi + quality"), "quality"),
        (("--count", "3", "--objective", "vendi + 0.5*precision"), "precision needs a reference"),
        (("--count", "3", "--objective", "vendi + much*quality"), "'much' is not a number"),
        (("--count", "3", "--objective", "vendi +"), "--objective is ''"),
        (("--count", "3", "--at-least-per-arm", "4"), "--at-least-per-arm 4 requires 4 samples"),
    ],
)
def test_refusals(arguments: tuple[str, ...], words: str) -> None:
    write_features()
    assert words in refused("f.npz", "--out", "k.jsonl", *arguments)
    assert not Path("k.jsonl").exists()


def test_targets_are_checked_before_anything_is_read() -> None:
    assert "k.xyz has no known format; use" in refused("f.npz", "--count", "3", "--out", "k.xyz")
    assert "there is no folder gone" in refused("f.npz", "--count", "3", "--out", "gone/k.npz")


@pytest.mark.parametrize("count", [1, 2, 5])
def test_duplicates_and_everything(count: int) -> None:
    np.save("same.npy", np.ones((5, 3)))
    found = kept("same.npy", "--count", str(count), "--out", "k.jsonl")
    assert found["scores"]["vendi"]["value"] == pytest.approx(1.0)
    assert found["measures"] == {}
    assert found["warnings"] == []
    assert [row["embedding"] for row in lines("k.jsonl")] == [[1.0, 1.0, 1.0]] * count
    np.save("zero.npy", np.zeros((5, 3)))
    assert "zero" in refused("zero.npy", "--count", str(count), "--out", "k.npy")
