"""Embeddings in exports, and the way back into the offline commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.errors import InputError
from genmix.inputs import load_arms


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GENMIX_CACHE", str(tmp_path / "cache"))
    (tmp_path / "own.py").write_text(
        "def letters(texts):\n    return [[t.count(c) + 0.1 for c in 'abcd'] for t in texts]\n"
    )
    texts = ["a", "ab", "bc", "cd", "dda", "aab", "bbc", "cca", "add", "bad"]
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"text": t}) for t in texts))
    arms = {label: {"kind": "recorded", "path": "t.jsonl", "once": True} for label in "xy"}
    study = {
        "arms": arms,
        "encoder": {"kind": "callable", "function": "own:letters"},
        "objective": "vendi",
        "budget": {"samples": 16},
        "warm_start": 3,
    }
    return gx.run(study, "run", callbacks=()).folder


@pytest.mark.parametrize("to", ["parquet", "jsonl", "npz", "hf"])
def test_every_format_has_the_embeddings_of_the_journal(to: str, run: Path) -> None:
    result = CliRunner().invoke(
        app, ["export", str(run), "--to", to, "--embeddings", "--out", f"out.{to}"]
    )
    assert result.exit_code == 0, result.stderr
    path = f"out.{to}" if to != "hf" else "out.hf/data/train-00000-of-00001.parquet"
    direct = load_arms([str(run)])
    again = load_arms([path])
    assert {arm.label for arm in again} == {"x", "y"}
    for arm in again:
        (same,) = [each for each in direct if each.label == arm.label]
        assert np.array_equal(arm.features, same.features)
        assert arm.sample_ids == same.sample_ids
        assert list(arm.cost) == list(same.cost)
        assert arm.encoder == (None if to == "jsonl" else same.encoder)
        assert arm.texts == (None if to == "npz" else same.texts)
    if to == "hf":
        assert "name: embedding\n    sequence: float32" in Path("out.hf/README.md").read_text()


def test_embeddings_are_float32_like_the_encoder(run: Path) -> None:
    schema = pq.read_schema(gx.export(run, "parquet", embeddings=True))
    assert str(schema.field("embedding").type.value_type) == "float"
    assert "embedding" not in pq.read_schema(gx.export(run, "parquet")).names


def test_the_name_of_a_feature_file(run: Path) -> None:
    assert gx.export(run, "npz").name == "features.npz"
    with pytest.raises(InputError, match=r"ends in \.npz"):
        gx.export(run, "npz", "features.npy")
    with pytest.raises(InputError, match="parquet, jsonl, hf or npz"):
        gx.export(run, "csv")  # type: ignore[arg-type]
