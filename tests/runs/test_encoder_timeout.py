"""Encoders that hang: they have a time limit, and no way to stop a run waits for them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.encoders import ENCODER_KINDS
from genmix.encoders.openai import OpenAISettings
from genmix.journal.reader import JournalReader
from genmix.runs import loop
from tests.runs.test_interrupts import reset_interrupts

MODULE = """
import threading
import numpy as np

released = threading.Event()
made = []

def make(seeds):
    texts = ["".join(np.random.default_rng(seed).choice(list("abcdx"), 3)) for seed in seeds]
    made.extend(texts)
    return texts

def embed(texts, hangs=None):
    if hangs is not None and any(hangs in text for text in texts):
        released.wait(60)
    return np.array([[1.0 + text.count(letter) for letter in "abcdx"] for text in texts])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "hanging.py").write_text(MODULE)
    monkeypatch.setenv("GENMIX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GENMIX_REPORT", "off")
    monkeypatch.setattr(loop, "PATIENCE", 0.2)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("hanging", None)


@pytest.fixture
def world(folder: Path) -> Iterator[Any]:
    """The module of the study; at the end, its hanging threads are released."""
    sys.path.insert(0, str(folder))
    try:
        import hanging  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(folder))
    yield hanging
    hanging.released.set()


def study(hangs: str | None, **parts: Any) -> dict[str, Any]:
    encoder = {"kind": "callable", "function": "hanging:embed", "timeout": 0.5}
    return {
        "arms": {"one": {"kind": "callable", "function": "hanging:make", "batch": 4}},
        "encoder": {**encoder, "arguments": {"hangs": hangs}, **parts.pop("encoder", {})},
        "objective": "vendi",
        "budget": {"samples": 12},
        "warm_start": 2,
        "in_flight": 4,
        "retries": {"first_wait": 0.01},
        **parts,
    }


def samples(folder: Path) -> list[str]:
    with JournalReader.open(folder) as journal:
        return [row["text"] for row in journal._rows("SELECT text FROM samples ORDER BY ticket")]


LATE = "the encoder did not finish within 0.5 seconds; fix it, or increase its timeout"


def test_a_hanging_encoder_stops_the_run_and_loses_no_sample(folder: Path, world: Any) -> None:
    run = gx.run(study(""), "run")
    assert (run.status, run.summary["samples"]) == ("trouble", 0)
    assert run.summary["reason"] == f"no sample could be embedded and told ({LATE})"
    paid = samples(run.folder)
    assert paid == world.made
    world.released.set()
    run = gx.resume("run")
    assert run.status == "finished"
    assert samples(run.folder)[: len(paid)] == paid
    assert len(world.made) == 12  # none was generated twice


def test_a_sample_that_hangs_is_rejected_and_the_others_are_told(folder: Path, world: Any) -> None:
    run = gx.run(study("xx", budget={"samples": 20}), "run")
    assert run.status == "finished"
    told = [row["text"] for row in run.samples()]
    assert len(told) == 20
    assert not any("xx" in text for text in told)
    assert any("xx" in text for text in samples(run.folder))


def test_a_spent_time_budget_waits_for_one_batch_at_most(folder: Path, world: Any) -> None:
    run = gx.run(study("", budget={"time": 0.3}), "run")
    assert run.status == "trouble"
    assert run.summary["reason"] == LATE
    world.released.set()
    assert gx.resume("run").status == "finished"
    assert samples(run.folder) == world.made


@pytest.mark.parametrize("budget", [{"samples": 12}, {"samples": 4}])
def test_a_stopped_run_does_not_wait_for_the_encoder(
    folder: Path, world: Any, budget: dict[str, int]
) -> None:
    """Also if the stop comes after the last sample has been asked for."""

    def stop(live: Any) -> None:
        if len(world.made) == 4:
            live.loop.stop("interrupted")

    begun = time.monotonic()
    run = gx.run(study("", encoder={"timeout": 600}, budget=budget), "run", callbacks=[stop])
    assert time.monotonic() - begun < 30
    assert run.status == "interrupted"
    assert samples(run.folder) == world.made
    world.released.set()
    assert gx.resume("run").status == "finished"


def test_a_check_does_not_wait_for_a_hanging_encoder(folder: Path, world: Any) -> None:
    from genmix.runs.check import check_study

    Path("study.yaml").write_text(json.dumps(study("")))
    report = check_study(Path("study.yaml"), draw=True)
    assert report.problems == ["arm 'one': the encoder did not finish within 0.5 seconds."]


def test_an_encoder_that_raises_a_timeout_of_its_own_is_not_late(folder: Path, world: Any) -> None:
    def fail(texts: list[str], hangs: str) -> Any:
        raise TimeoutError("no reply from the model server")

    world.embed = fail
    run = gx.run(study("", encoder={"timeout": 600}), "run")
    assert run.status == "trouble"
    assert "no reply from the model server" in run.summary["reason"]


# -- Ctrl-C in a process of its own, which must also exit --------------------------------------------

SCRIPT = """
import asyncio, sys
import genmix as gx
from genmix.runs import loop

loop.PATIENCE = 0.2

def run():
    print("status:", gx.run("study.yaml", "run", progress=False).status, flush=True)

async def cell():
    run()

asyncio.run(cell()) if sys.argv[1] == "notebook" else run()
"""

STUDY = """
arms:
  one: {kind: callable, function: "hanging:make", batch: 4}
encoder: {kind: callable, function: "hanging:embed", arguments: {hangs: ""}}
objective: vendi
budget: {samples: 12}
warm_start: 2
in_flight: 4
"""


def start(folder: Path, how: str) -> subprocess.Popen[str]:
    (folder / "study.yaml").write_text(STUDY)
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, how],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=reset_interrupts,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_samples(folder: Path) -> None:
    for _ in range(1200):
        try:
            if len(samples(folder)) >= 4:
                return
        except gx.GenmixError:
            pass
        threading.Event().wait(0.05)
    raise AssertionError("the run did not get that far")


@pytest.mark.parametrize("how", ["script", "notebook"])
def test_one_interrupt_ends_a_run_whose_encoder_hangs_and_its_process(
    folder: Path, how: str
) -> None:
    process = start(folder, how)
    wait_for_samples(folder / "run")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=50)  # the encoder would hang for 60 seconds
    assert (out.strip(), process.returncode) == ("status: interrupted", 0), err


def test_two_interrupts_end_it_at_once(folder: Path) -> None:
    process = start(folder, "script")
    wait_for_samples(folder / "run")
    process.send_signal(signal.SIGINT)
    threading.Event().wait(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=50)
    assert "status: interrupted" in out or "KeyboardInterrupt" in err.splitlines()[-1]
    assert 4 <= len(samples(folder / "run")) <= 5  # one more is generated ahead


# -- the setting ------------------------------------------------------------------------------------


def test_every_kind_of_encoder_has_a_time_limit() -> None:
    for kind in ENCODER_KINDS:
        assert kind.model_fields["timeout"].description


def test_an_endpoint_may_use_all_its_attempts() -> None:
    settings = OpenAISettings(kind="openai", model="m", batch=64, timeout=30)
    assert settings.time_limit(1) == 4 * (30 + 60)
    assert settings.time_limit(256) == 4 * settings.time_limit(64)
