"""Arms of several runs are joined only if they are the same generator."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import genmix as gx
from genmix.errors import InputError
from genmix.inputs import load_arms
from genmix.journal.reader import JournalReader

CODE = """
import numpy as np
def draw(seeds):
    return [{"vector": (%s + np.random.default_rng(s).random(3)).tolist()} for s in seeds]
"""
STUDY = """
name: s
arms:
  a: {kind: callable, function: "arms:draw"}
  b: {kind: callable, function: "arms:draw"}
objective: vendi
budget: {samples: 24}
"""


def make(folder: Path, run: str, shift: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "arms.py").write_text(CODE % shift)
    (folder / "study.yaml").write_text(STUDY)
    return gx.run(folder / "study.yaml", folder / run, callbacks=()).folder


def labels(*runs: Path) -> list[str]:
    return [arm.label for arm in load_arms([str(run) for run in runs])]


def test_functions_of_the_same_name_in_different_folders_are_not_joined(tmp_path: Path) -> None:
    first, second = make(tmp_path / "x", "one"), make(tmp_path / "y", "two", 5)
    with pytest.raises(InputError, match="would both be named 'a'"):
        labels(first, second)
    assert labels(first, make(tmp_path / "x", "three")) == ["a", "b"]


def test_an_unknown_generator_is_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make(tmp_path / "x", "one"), make(tmp_path / "x", "two")
    (tmp_path / "x" / "arms.py").unlink()
    monkeypatch.delitem(sys.modules, "arms", raising=False)
    assert labels(first, second) == ["one/a", "two/a", "one/b", "two/b"]


def test_a_removed_arm_keeps_its_identity(tmp_path: Path) -> None:
    first, second = make(tmp_path / "x", "one"), make(tmp_path / "x", "two")
    other = make(tmp_path / "y", "three", 5)
    for run in (second, other):
        study = run.parent / "study.yaml"
        study.write_text(STUDY.replace('  b: {kind: callable, function: "arms:draw"}\n', ""))
        gx.resume(run, study=study, callbacks=())
    assert labels(first, second) == ["a", "b"]
    with pytest.raises(InputError, match="would both be named"):
        labels(second, other)


def test_a_run_is_counted_once(tmp_path: Path) -> None:
    run = make(tmp_path / "x", "one")
    with pytest.raises(InputError, match="are the same run; pass each run once"):
        load_arms([str(run), f"again={run}"])


def test_an_edited_function_is_another_generator(tmp_path: Path) -> None:
    first, second = make(tmp_path / "x", "one"), make(tmp_path / "x", "two")
    assert labels(first, second) == ["a", "b"]
    with pytest.raises(InputError, match="would both be named 'a'"):
        labels(first, make(tmp_path / "x", "three", 5))


def test_a_function_that_was_edited_during_a_run_is_said(tmp_path: Path) -> None:
    first, second = make(tmp_path / "x", "one"), make(tmp_path / "x", "two")
    (tmp_path / "x" / "arms.py").write_text(CODE % 5)
    notes: list[str] = []
    gx.resume(second, samples=30, note=notes.append)
    assert "arm a: its source code has changed; earlier samples are kept" in notes
    with JournalReader.open(second) as journal:
        changed = [e["arm"] for e in journal.events() if "source" in str(e["detail"].get("why"))]
    assert changed == ["a", "b"]
    notes.clear()
    gx.resume(second, samples=36, note=notes.append)
    assert not any("source code" in note for note in notes)
    with pytest.raises(InputError, match="would both be named"):
        labels(first, second)
