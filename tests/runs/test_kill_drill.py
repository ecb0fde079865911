"""Runs killed at any moment, compared with the ledger of the server that bills them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from genmix.errors import GenmixError
from genmix.journal.reader import JournalReader

KILLS = 100
LATE = 0.05
"""Seconds before a kill in which an answer may be lost, on a machine that has nothing else to do."""
PRICE = 10.0
"""Per 1000 tokens."""

ENCODER = """
import numpy as np

def embed(texts):
    return np.array([[1.0 + text.count(letter) for letter in "abcdefgh"] for text in texts])
"""

STUDY = """
name: {name}
arms:
  one: {{kind: openai, model: m, base_url: "http://127.0.0.1:{port}/v1", prompt: {name}, batch: 8,
        concurrency: {concurrency}, max_tokens: 12, price: {{input: 0, output: {price}}}}}
  two: {{kind: openai, model: n, base_url: "http://127.0.0.1:{port}/v1", prompt: {name}, batch: 8,
        concurrency: {concurrency}, max_tokens: 12, price: {{input: 0, output: {price}}}}}
encoder: {{kind: callable, function: "letters:embed"}}
objective: vendi
budget: {{samples: {samples}}}
warm_start: 4
in_flight: {in_flight}
"""

DRIVER = """
import json, os, random, signal, sys, time
from pathlib import Path
from urllib.request import urlopen

import openai
import openai.resources.chat
import genmix as gx

def start(folder):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        def begun(live, is_first=iter([True])):
            if next(is_first, False):
                os.write(writing, b"!")
        try:
            is_started = (folder / "journal.sqlite").exists()
            begin, what = (gx.resume, [folder]) if is_started else (gx.run, [f"{folder.name}.yaml", folder])
            begin(*what, callbacks=[begun])
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    os.close(writing)
    os.read(reading, 1)  # its requests are on their way
    os.close(reading)
    return child

def ends(child, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.002)
    return False

def wait_for_quiet():
    '''Wait until the server has seen every request of the killed process.'''
    seen = None
    while seen != (seen := urlopen(sys.argv[2]).read()):
        time.sleep(0.3)

rng, kills, number = random.Random(5), [], 0
while len(kills) < int(sys.argv[1]):
    folder = Path(f"run{number}")
    child = start(folder)
    if ends(child, rng.uniform(0, 0.5)):
        number += 1
        continue
    killed_at = time.monotonic()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    wait_for_quiet()
    kills.append((folder.name, killed_at, time.monotonic()))
child = start(folder)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(json.dumps(kills))
"""


class Billing:
    """The server's side of the drill."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port, self.hold = folder, port, folder / "hold"

    def study(self, name: str, **sizes: int) -> Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(STUDY.format(name=name, port=self.port, price=PRICE, **sizes))
        return path

    @property
    def ledger_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/ledger"

    def ledger(self) -> dict[int, dict[str, Any]]:
        with urlopen(self.ledger_url) as reply:
            return {bill["id"]: bill for bill in json.load(reply)}


@pytest.fixture
def billing(tmp_path: Path) -> Iterator[Billing]:
    (tmp_path / "letters.py").write_text(ENCODER)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.billing_server", str(tmp_path / "hold")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield Billing(tmp_path, int(server.stdout.readline()))
    finally:
        server.kill()
        server.communicate()


def environment(folder: Path) -> dict[str, str]:
    settings = {"OMP_NUM_THREADS": "1", "GENMIX_REPORT": "off", "GENMIX_CACHE": str(folder)}
    return os.environ | settings


def journaled(run: Path) -> dict[int, float]:
    """The cost of each bill in a journal, by number."""
    with JournalReader.open(run) as journal:
        rows = journal._rows("SELECT text, cost FROM samples")
    found = {int(row["text"].split()[0].removeprefix("bill-")): row["cost"] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.long
def test_a_journal_misses_only_what_was_answered_moments_before_a_kill(billing: Billing) -> None:
    for number in range(KILLS):
        billing.study(f"run{number}", samples=80, concurrency=1, in_flight=8)
    driver = subprocess.run(
        [sys.executable, "-c", DRIVER, str(KILLS), billing.ledger_url],
        cwd=billing.folder,
        env=environment(billing.folder),
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert driver.returncode == 0, driver.stderr
    kills: dict[str, list[tuple[float, float]]] = {}
    for name, *times in json.loads(driver.stdout.splitlines()[-1]):
        kills.setdefault(name, []).append(tuple(times))
    ledger, lags, cut_off, found = billing.ledger(), [0.0], 0, dict[int, float]()
    for name in kills:
        found |= journaled(billing.folder / name)
    for number, bill in ledger.items():
        if number in found or bill["prompt"] not in kills:
            continue
        kill = next(at for at, quiet in kills[bill["prompt"]] if quiet > bill["arrived"])
        if "answered" not in bill or bill["answered"] > kill:
            cut_off += 1
        else:
            lags.append(kill - bill["answered"])
    told, load = sum(found.values()), os.getloadavg()[0] / (os.cpu_count() or 1)
    billed = sum(bill["tokens"] for number, bill in ledger.items() if number in found)
    print(
        f"{sum(map(len, kills.values()))} kills of {len(kills)} runs: {len(ledger)} requests, "
        f"{len(found)} journaled, {cut_off} still open at a kill, {len(lags) - 1} lost, "
        f"answered at most {1000 * max(lags):.1f} ms before it, with {load:.1f} processes per core"
    )
    assert told == pytest.approx(billed * PRICE / 1000, abs=1e-9)
    assert max(lags) <= LATE


def test_what_arrived_before_a_kill_is_in_the_journal_and_never_paid_again(
    billing: Billing,
) -> None:
    """Seven of eight replies have arrived when the process is killed."""
    billing.hold.touch()
    study = billing.study("run", samples=8, concurrency=1, in_flight=8)
    study.write_text(
        study.read_text().replace("  two:", "  # two:").replace("\n        conc", " conc")
    )
    command = [sys.executable, "-m", "genmix"]
    process = subprocess.Popen(
        [*command, "run", study.name, "--out", "run", "--quiet"],
        cwd=billing.folder,
        env=environment(billing.folder),
    )
    wait_for(billing.folder / "run", replies=7)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = journaled(billing.folder / "run")
    assert len(before) == 7
    billing.hold.unlink()
    subprocess.run(
        [*command, "resume", "run", "--quiet"],
        cwd=billing.folder,
        env=environment(billing.folder),
        check=True,
        capture_output=True,
    )
    after, ledger = journaled(billing.folder / "run"), billing.ledger()
    assert set(before) < set(after)
    assert len(after) == 8
    assert set(ledger) - set(after) == {7}  # it was cut off by the kill
    assert sum(after.values()) == pytest.approx(sum(ledger[n]["tokens"] for n in after) * 0.01)


def wait_for(run: Path, replies: int) -> None:
    for _ in range(600):
        try:
            if len(journaled(run)) == replies:
                return
        except GenmixError:
            pass
        threading.Event().wait(0.05)
    raise AssertionError("the replies did not arrive in the journal")
