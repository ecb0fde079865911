"""Long checks of whole studies: killed at any moment, without room on the disk, with a bad endpoint."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from genmix.journal.reader import JournalReader
from tests.runs.test_interrupts import reset_interrupts

KILLED_RUNS = 32

ARMS = """
import time
import numpy as np

def make(seeds, letters, pause=0.002):
    out = []
    for seed in seeds:
        time.sleep(pause)
        out.append("".join(np.random.default_rng(seed).choice(list(letters), 6)))
    return out

def embed(texts):
    return np.array([[1.0 + text.count(c) for c in "abcdefgh"] for text in texts])
"""

STUDY = """
name: drill
seed: {seed}
arms:
  narrow: {{kind: callable, function: "arms:make", arguments: {{letters: ab}}{more}}}
  wide: {{kind: callable, function: "arms:make", arguments: {{letters: cdef}}{more}}}
  other: {{kind: callable, function: "arms:make", arguments: {{letters: gh}}{more}}}
{few}encoder: {{kind: callable, function: "arms:embed"}}
objective: vendi
budget: {{samples: {samples}}}
warm_start: 5
"""


FEW = """  few: {kind: recorded, path: few.jsonl, exhausted: retire}
"""


def study(folder: Path, samples: int = 90, seed: int = 0, more: str = "", few: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "arms.py").write_text(ARMS)
    words = [{"text": f"{'gh'[i % 2] * 3}{i}"} for i in range(14)]
    (folder / "few.jsonl").write_text("\n".join(map(json.dumps, words)))
    path = folder / "study.yaml"
    path.write_text(STUDY.format(samples=samples, seed=seed, more=more, few=few))
    return path


def start(folder: Path, *command: str, **options: Any) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GENMIX_CACHE": str(folder / "cache")}
    options.setdefault("preexec_fn", reset_interrupts)
    return subprocess.Popen(
        [sys.executable, "-m", "genmix", *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def outcome(folder: Path) -> tuple[list[tuple[Any, ...]], dict[str, float]]:
    """Every told sample in order, and the final weights."""
    journal = JournalReader.open(folder / "run")
    rows = [(r["id"], r["arm"], r["place"], r["text"], r["weight"]) for r in journal.told_rows()]
    journal.close()
    return rows, json.loads((folder / "run" / "weights.json").read_text())["weights"]


def kill_at_random_until_done(folder: Path, rng: random.Random, whole: float = 2.0) -> int:
    """How often it was killed; ``whole`` is about how long a run takes, which grows with its kills."""
    kills = 0
    while True:
        begun = (folder / "run" / "journal.sqlite").exists()
        command = ("resume", "run") if begun else ("run", "study.yaml", "--out", "run")
        process = start(folder, *command, "--quiet")
        try:
            process.wait(timeout=rng.uniform(0.0, 1.1 * whole * 1.2**kills))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills += 1
        code, _, err = finish(process)
        if code == 0:
            return kills
        assert code == -signal.SIGKILL, err


@pytest.mark.drill
@pytest.mark.parametrize("part", range(4))
def test_runs_killed_at_random_end_as_if_nothing_had_happened(tmp_path: Path, part: int) -> None:
    rng = random.Random(part)
    kills = 0
    for number in range(KILLED_RUNS // 4):
        whole, cut = tmp_path / f"whole{number}", tmp_path / f"cut{number}"
        for folder in (whole, cut):
            study(folder, seed=100 * part + number, few=FEW if number % 2 else "")
        begun = time.monotonic()
        code, _, err = finish(start(whole, "run", "study.yaml", "--out", "run", "--quiet"))
        assert code == 0, err
        kills += kill_at_random_until_done(cut, rng, time.monotonic() - begun)
        expected, found = outcome(whole), outcome(cut)
        assert len({row[0] for row in found[0]}) == 90
        assert found == expected
    assert kills >= KILLED_RUNS // 4
    print(f"{KILLED_RUNS // 4} runs, killed {kills} times")


KILLED_AT = """
import os, signal, sys
from pathlib import Path

import genmix as gx

TOUCHES = {"open", "os.mkdir", "os.remove", "os.rename", "sqlite3.connect"}

def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def run_until(left):
    def touched(event, arguments):
        nonlocal left
        if event in TOUCHES and any(
            "run" in Path(os.fsdecode(a)).parts for a in arguments[:2] if isinstance(a, (str, Path))
        ):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(touched)
    gx.run("study.yaml", "run")

def complete():
    gx.resume("run") if Path("run/journal.sqlite").exists() else gx.run("study.yaml", "run")

place, home = 0, Path.cwd()
while True:
    os.chdir(home / f"cut{place}")
    place += 1
    code = in_child(lambda: run_until(place))
    if code == 0:
        break
    assert code == -signal.SIGKILL, (place, code)
    assert in_child(complete) == 0, place
print(place - 1)
"""


@pytest.mark.drill
def test_a_run_killed_at_each_touch_of_its_folder_can_be_started_or_resumed(tmp_path: Path) -> None:
    most = 60
    for number in range(most):
        study(tmp_path / f"cut{number}", samples=20)
    done = subprocess.run(
        [sys.executable, "-c", KILLED_AT],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    kills = int(done.stdout.split()[-1])
    assert 20 < kills < most
    for number in range(kills):
        found = tmp_path / f"cut{number}"
        assert outcome(found) == outcome(tmp_path / f"cut{kills}"), number
        assert (found / "run" / "study.yaml").read_text() == (found / "study.yaml").read_text()
        assert not list((found / "run").glob("*.part*"))
    print(f"killed at each of {kills} touches")


@pytest.mark.drill
def test_killed_runs_with_many_in_flight_are_complete_and_count_each_sample_once(
    tmp_path: Path,
) -> None:
    rng = random.Random(9)
    for number in range(4):
        folder = tmp_path / f"cut{number}"
        path = study(folder, samples=120, seed=number, more=", concurrency: 2, batch: 3")
        path.write_text(path.read_text() + "in_flight: 12\n")
        kill_at_random_until_done(folder, rng)
        rows, weights = outcome(folder)
        assert len(rows) == 120 == len({row[0] for row in rows})
        assert len({(arm, place) for _, arm, place, _, _ in rows}) == 120
        assert sum(weights.values()) == pytest.approx(1)


@pytest.mark.drill
def test_a_full_disk_ends_with_a_sentence_and_a_folder_that_resumes(tmp_path: Path) -> None:
    whole, full = tmp_path / "whole", tmp_path / "full"
    for folder in (whole, full):
        study(folder, samples=150)
    assert finish(start(whole, "run", "study.yaml", "--out", "run", "-q"))[0] == 0

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    process = start(full, "run", "study.yaml", "--out", "run", "-q", preexec_fn=small_files)
    code, _, err = finish(process)
    assert code == 2, err
    assert err.count("\n") == 1
    assert "could not write" in err
    assert "genmix resume" in err
    code, _, err = finish(start(full, "resume", "run", "-q"))
    assert code == 0, err
    assert outcome(full) == outcome(whole)


@pytest.mark.drill
def test_ctrl_c_ends_cleanly_and_twice_at_once(tmp_path: Path) -> None:
    study(tmp_path, samples=2000)
    process = start(tmp_path, "run", "study.yaml", "--out", "run")
    wait_for(tmp_path / "run", told=20)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130, err
    assert "interrupted" in out
    before = len(outcome(tmp_path)[0])
    assert before >= 20
    (tmp_path / "arms.py").write_text(ARMS.replace("0.002", "30.0"))
    process = start(tmp_path, "resume", "run")
    time.sleep(3.0)  # it is in a call that takes half a minute
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    assert finish(process)[0] == 130
    assert time.monotonic() - begun < 20
    assert len(outcome(tmp_path)[0]) == before


def wait_for(run: Path, told: int) -> None:
    for _ in range(600):
        time.sleep(0.05)
        if (run / "journal.sqlite").exists():
            try:
                journal = JournalReader.open(run)
            except Exception:
                continue
            found = sum(1 for _ in journal.told_rows())
            journal.close()
            if found >= told:
                return
    raise AssertionError("the run did not get that far")
