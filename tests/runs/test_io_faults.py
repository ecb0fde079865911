"""Fault injection in the style of SQLite: each write, sync and rename of a run fails, once or for good."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.journal.reader import JournalReader
from tests.support.io_faults import Faults, reaches_sqlite

NEVER = 10**9
POINTS = 8
"""Points of the short version, spread over the run."""

MODULE = """
import hashlib
import numpy as np

def make(seeds, size):
    return [np.random.default_rng(seed).integers(0, 255, (size, size), np.uint8) for seed in seeds]

def embed(images):
    digests = [hashlib.blake2b(image, digest_size=6).digest() for image in images]
    return np.array([list(digest) for digest in digests]) / 255
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Faults are injected into the functions through which SQLite reaches its files. A Python that contains
    # its own copy of SQLite hides them; test_drills.py fills a real disk on any machine.
    if not reaches_sqlite():
        pytest.skip(
            "this Python contains its own copy of SQLite, whose files cannot be made to fail"
        )
    (tmp_path / "io_fault_arms.py").write_text(MODULE)
    monkeypatch.setenv("GENMIX_REPORT", "off")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def study(samples: int) -> dict[str, Any]:
    function = {"kind": "callable", "function": "io_fault_arms:make"}
    return {
        "arms": {
            "small": {**function, "arguments": {"size": 2}},
            "large": {**function, "arguments": {"size": 3}},
        },
        "encoder": {"kind": "callable", "function": "io_fault_arms:embed"},
        "objective": "vendi",
        "budget": {"samples": samples},
        "warm_start": 2,
    }


class Drill:
    """Runs of the same study, each in a folder of its own with a cache of its own."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, samples: int) -> None:
        self.home, self.monkeypatch, self.study = home, monkeypatch, study(samples)
        with self.faults(NEVER, False) as faults:
            gx.run(self.study, self.home / "case" / "run")
        self.points, self.kinds, self.expected = faults.count, faults.kinds, self.data()

    def faults(self, fail_at: int, lasting: bool) -> Faults:
        shutil.rmtree(self.home / "case", ignore_errors=True)
        self.monkeypatch.setenv("GENMIX_CACHE", str(self.home / "case" / "cache"))
        return Faults(fail_at, self.home / "case", lasting)

    def data(self) -> tuple[list[Any], Any, list[bytes]]:
        """The data set: told samples, weights, and images."""
        run = self.home / "case" / "run"
        with JournalReader.open(run) as journal:
            names = ("id", "arm", "place", "seed", "weight", "image", "embedding")
            rows = [tuple(row[name] for name in names) for row in journal.told_rows()]
        lines = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
        assert [line["image_path"] for line in lines] == [f"images/{row[5]}" for row in rows]
        weights = json.loads((run / "weights.json").read_text())
        return rows, weights, [(run / "images" / row[5]).read_bytes() for row in rows]

    def check(self, fail_at: int, lasting: bool) -> bool:
        """Fail one operation; return whether the run ended with a sentence instead of finishing."""
        where, run = (fail_at, lasting), self.home / "case" / "run"
        said = None
        with self.faults(fail_at, lasting) as faults:
            try:
                gx.run(self.study, run)
            except gx.StorageError as error:
                said = str(error)
        assert faults.has_failed, where
        assert said is None or (said.count("\n") == 0 and said.endswith(".")), (where, said)
        if (run / "journal.sqlite").exists():
            gx.resume(run)
        else:
            gx.run(self.study, run)
        assert self.data() == self.expected, (where, said)
        assert not list(run.rglob("*.part*")), where
        return said is not None


@pytest.mark.long
@pytest.mark.parametrize("lasting", [False, True])
def test_every_fault_ends_with_a_sentence_and_resumes_to_the_same_data_set(
    home: Path, monkeypatch: pytest.MonkeyPatch, lasting: bool
) -> None:
    drill = Drill(home, monkeypatch, samples=6)
    said, problems = 0, []
    for point in range(1, drill.points + 1):
        try:
            said += drill.check(point, lasting)
        except Exception as error:
            problems.append((point, f"{type(error).__name__}: {error}"[:300]))
    print(f"{drill.points} points {dict(drill.kinds)}: {said} sentences, the others are harmless")
    assert problems == []
    assert drill.points > 200


@pytest.mark.parametrize("lasting", [False, True])
def test_some_faults_end_with_a_sentence_and_resume_to_the_same_data_set(
    home: Path, monkeypatch: pytest.MonkeyPatch, lasting: bool
) -> None:
    drill = Drill(home, monkeypatch, samples=4)
    points = np.linspace(1, drill.points, POINTS).astype(int)
    assert sum(drill.check(int(point), lasting) for point in points) >= POINTS // 3
