"""Files are whole or not there, and what a killed process left of them does not stay."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import genmix as gx
from genmix.disk import draft_of, sweep, write_text


def dead_process() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def leave_drafts(folder: Path) -> tuple[Path, Path]:
    """What a process that was killed, and one that still writes, have in a folder."""
    folder.mkdir(exist_ok=True)
    left = folder / f"samples.jsonl.{dead_process()}-1.part"
    live = folder / f"samples.jsonl.{os.getpid()}-1.part"
    for draft in (left, live):
        draft.write_text("half")
    return left, live


def test_an_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_text(target, "old")
    with suppress(ZeroDivisionError), draft_of(target) as draft:
        draft.write_text("new")
        raise ZeroDivisionError
    assert target.read_text() == "old"
    write_text(target, "new")
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


def test_what_cannot_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(gx.InputError, match=r"file could not be written \(No such file .*\): buy"):
        write_text(tmp_path / "missing" / "file", "words", "buy a disk")


def test_only_drafts_of_the_dead_are_swept(tmp_path: Path) -> None:
    left, live = leave_drafts(tmp_path)
    others = tmp_path / "other.part", tmp_path / "words.1-2.part.txt"
    for other in others:
        other.write_text("mine")
    sweep(tmp_path)
    assert not left.exists()
    assert all(kept.exists() for kept in (live, *others))


def test_an_export_and_a_comparison_sweep_where_they_write(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pools = {"a": rng.normal(size=(40, 3)), "b": rng.normal(size=(40, 3)) + 1}
    for arm, pool in pools.items():
        np.save(tmp_path / f"{arm}.npy", pool)
    arms = {arm: {"kind": "recorded", "path": str(tmp_path / f"{arm}.npy")} for arm in pools}
    study = {"name": "s", "arms": arms, "objective": "vendi", "budget": {"samples": 25}}
    run = gx.run(study, tmp_path / "run")
    left, live = leave_drafts(tmp_path / "run")
    gx.export(run.folder, "jsonl")
    assert not left.exists()
    assert live.exists()

    left, live = leave_drafts(tmp_path / "compared")
    found = gx.compare(pools, ["mixture-greedy"], 1, objective=gx.Vendi(), budget=30)
    found.save(tmp_path / "compared", figures=False)
    assert not left.exists()
    assert live.exists()
