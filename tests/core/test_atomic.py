"""Files are whole or not there, and what a killed process left of them does not stay."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import genmix as gx
from genmix.core.atomic import draft_of, draft_path, sweep, sweep_drafts_of, write_text


def dead_process() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def leave_drafts(folder: Path) -> tuple[Path, Path]:
    """What a process that was killed, and one that still writes, have in a folder."""
    folder.mkdir(exist_ok=True)
    mine = draft_path(folder / "samples.jsonl")
    left = folder / mine.name.replace(f"-{os.getpid()}-", f"-{dead_process()}-")
    live = folder / mine.name.replace(f"-{threading.get_ident()}", "-1")
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
    with pytest.raises(gx.StorageError, match=r"could not write .*file \(No such file .*\); buy"):
        write_text(tmp_path / "missing" / "file", "words", "buy a disk")


def test_only_drafts_of_the_dead_are_swept(tmp_path: Path) -> None:
    left, live = leave_drafts(tmp_path)
    elsewhere = tmp_path / f"x.0badc0de-{dead_process()}-1.genmix.part"  # in another container
    others = elsewhere, tmp_path / "other.part", tmp_path / "backup.2024-11.part"
    for other in others:
        other.write_text("mine")
    sweep_drafts_of(tmp_path / "samples.csv")
    assert left.exists()
    sweep(tmp_path)
    assert not left.exists()
    assert all(kept.exists() for kept in (live, *others))


def test_a_data_set_leaves_others_alone(tmp_path: Path) -> None:
    """The draft of a folder is its own, and what lies beside it is somebody's."""
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(40, 3)))
    arms = {"a": {"kind": "recorded", "path": str(tmp_path / "a.npy")}}
    study = {"name": "s", "arms": arms, "objective": "vendi", "budget": {"samples": 25}}
    run = gx.run(study, tmp_path / "run")
    (tmp_path / "data.part").mkdir()
    (tmp_path / "data.part" / "mine").write_text("precious")
    left = draft_path(tmp_path / "data").name.replace(f"-{os.getpid()}-", f"-{dead_process()}-")
    (tmp_path / left / "data").mkdir(parents=True)
    gx.export(run.folder, "hf", tmp_path / "data")
    assert (tmp_path / "data.part" / "mine").read_text() == "precious"
    assert not (tmp_path / left).exists()
    assert (tmp_path / "data" / "README.md").exists()


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
