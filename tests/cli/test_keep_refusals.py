"""``genmix keep``: nothing that was computed is lost, and options that exclude each other are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from genmix.cli import app
from genmix.offline import predict_keep


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for arm, quality in (("a", 0.9), ("b", 0.1)):
        rows = rng.standard_normal((30, 3))
        np.savez(f"{arm}.npz", features=rows, quality=np.full(30, quality))
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["keep", *arguments])


def refused(*arguments: str) -> str:
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr.splitlines()[-1]


def test_a_failed_prediction_is_a_note() -> None:
    result = invoke("a.npz", "--count", "25", "--predict", "9", "--out", "k.json", "--json")
    assert result.exit_code == 0
    assert "genmix: no prediction is possible: 30 samples are too few" in result.stderr
    assert "prediction" not in json.loads(result.stdout)
    assert sum(map(len, json.loads(Path("k.json").read_text())["rows"].values())) == 25


@pytest.mark.parametrize("out", ["k.json", "k.npz"])
def test_an_interrupted_prediction_keeps_the_samples(
    out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        assert Path(out).exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(predict_keep, "predict", interrupt)
    result = invoke("a.npz", "--count", "9", "--predict", "9", "--out", out)
    assert result.exit_code == 130
    assert result.stderr.endswith("genmix: interrupted; the samples were kept.\n")
    assert "kept: vendi" in result.stdout


def test_a_prediction_is_in_the_file_too() -> None:
    shown = invoke("a.npz", "--count", "5", "--predict", "9", "--out", "k.json", "--json")
    found = json.loads(shown.stdout)["prediction"]
    assert found["more"] == 9
    assert json.loads(Path("k.json").read_text())["prediction"] == found


def test_options_that_exclude_each_other() -> None:
    both = ("a.npz", "b.npz", "--count", "6", "--out", "k.npz")
    message = refused(*both, "--predict", "9", "--at-least-per-arm", "2")
    assert message.startswith("genmix: --predict does not support --at-least-per-arm;")
    message = refused(*both, "--min-quality", "0.5", "--at-least-per-arm", "2")
    assert message.startswith("genmix: --at-least-per-arm is 2, but arm 'b' has 0 samples of this")
    assert not Path("k.npz").exists()


def test_an_input_is_not_replaced(folder: Path) -> None:
    before = Path("a.npz").read_bytes()
    for name in ("a.npz", str(folder / "a.npz")):
        message = refused("first=a.npz", "--count", "6", "--out", name)
        assert message == f"genmix: --out would replace the input {name}; write to another file."
    assert Path("a.npz").read_bytes() == before


def test_a_missing_number_is_named_by_its_line() -> None:
    Path("t.csv").write_text("text,quality\na b,1\nc d,\ne f,3\n")
    Path("mine.py").write_text("def size(texts):\n    return [[len(t), 1.0] for t in texts]\n")
    start = ("t.csv", "--count", "2", "--out", "k.json", "--encoder", "mine.py:size")
    for option, value, what in (
        ("--objective", "quality", "the objective"),
        ("--min-quality", "0.5", "--min-quality"),
    ):
        assert refused(*start, option, value) == (
            f"genmix: t.csv, line 3 has no quality, which {what} needs; add a number for every sample."
        )
    assert refused(*start, "--objective", "vendi + cost") == (
        "genmix: t.csv has no cost, which the objective needs; add a number for every sample, as the column "
        "or array 'cost'."
    )


def test_a_share_is_named_if_it_is_too_large() -> None:
    message = refused("a.npz", "b.npz", "--share", "0.9", "--min-quality", "0.5", "--out", "k.npz")
    assert message.endswith(
        "but there are only 30 samples of this quality; pass a smaller --share."
    )
