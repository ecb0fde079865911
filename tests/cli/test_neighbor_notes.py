"""Commands that search for neighbors for long say how far they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from genmix.cli import app, notes

COMMANDS = {
    "score": ("score", "a.npy", "--reference", "r.npy"),
    "mixture": ("mixture", "a.npy", "--objective", "precision", "--reference", "r.npy"),
    "folder": ("score", "shards", "--reference", "r.npy"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_long_search_says_how_far_it_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Path("shards").mkdir()
    for file in ("a.npy", "r.npy", "shards/0.npy"):
        np.save(file, rng.standard_normal((30, 3)))
    note = "genmix: finding the neighbors in the reference: 30 of 30 samples\n"
    quick = CliRunner().invoke(app, list(COMMANDS[name]))
    assert (quick.exit_code, note in quick.stderr) == (0, False)
    monkeypatch.setattr(notes, "SLOW", -1.0)
    slow = CliRunner().invoke(app, list(COMMANDS[name]))
    assert slow.exit_code == 0
    assert slow.stderr.count(note) == 1  # the next note would be due in five seconds
    assert slow.stdout == quick.stdout
