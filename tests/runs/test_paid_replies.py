"""Replies that are paid for: each is journaled as it arrives, and lost answers count at their worst case."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.core.inbox import Inbox
from genmix.generators import CommandArm, Context
from genmix.journal.reader import JournalReader
from genmix.journal.schema import Entry
from genmix.runs.arm import ArmState
from genmix.runs.retries import Retries
from genmix.study.sections import Retries as RetrySettings
from tests.support.endpoint import HALF, Answer, Call, Endpoint, text_for, tokens_in

ENCODER = """
import numpy as np

def embed(texts):
    return np.array([[1.0 + text.count(letter) for letter in "abcdefgh"] for text in texts])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "letters.py").write_text(ENCODER)
    monkeypatch.setenv("GENMIX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GENMIX_REPORT", "off")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def study(arm: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {
        "arms": {"one": {"prompt": "a word", **arm}},
        "encoder": {"kind": "callable", "function": "letters:embed"},
        "objective": "vendi",
        "budget": {"samples": 8},
        "warm_start": 2,
        **parts,
    }


def openai_arm(endpoint: Endpoint, **settings: Any) -> dict[str, Any]:
    return {"kind": "openai", "model": "test", "base_url": endpoint.url, **settings}


def journaled(folder: Path) -> int:
    with JournalReader.open(folder) as journal:
        return len(journal._rows("SELECT ticket FROM samples"))


# -- each reply is journaled as it arrives ----------------------------------------------------------


def test_replies_of_an_endpoint_are_journaled_before_the_slowest_arrives(folder: Path) -> None:
    released, counts = threading.Event(), set[int]()

    def behave(call: Call) -> Answer | None:
        if call.route == "/chat/completions" and call.payload["seed"] == min(seeds(endpoint)):
            released.wait(10)
        return None

    def watch(live: Any) -> None:
        counts.add(journaled(folder / "run"))
        if 7 in counts:
            released.set()

    with Endpoint() as endpoint:
        endpoint.behave(behave)
        arm = openai_arm(endpoint, batch=8)
        gx.run(study(arm, in_flight=8), folder / "run", callbacks=[watch])
    assert 7 in counts


def seeds(endpoint: Endpoint) -> list[int]:
    """The seeds of the first eight requests; waits until they are there."""
    while True:
        found = [c.payload["seed"] for c in endpoint.requests if c.route == "/chat/completions"]
        if len(found) >= 8:
            return found[:8]
        threading.Event().wait(0.01)


SLOW_PROGRAM = """
import json, pathlib, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    deadline = time.monotonic() + 10
    while asked["index"] == 2 and not pathlib.Path("go").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    print(json.dumps({"text": "ab" * asked["index"] + "c"}), flush=True)
"""


def test_replies_of_a_program_are_journaled_before_the_slowest_arrives(folder: Path) -> None:
    (folder / "program.py").write_text(SLOW_PROGRAM)
    counts = set[int]()

    def watch(live: Any) -> None:
        counts.add(journaled(folder / "run"))
        if 2 in counts:
            (folder / "go").touch()

    arm = {"kind": "command", "command": [sys.executable, "program.py"], "batch": 3}
    gx.run(
        study(arm, in_flight=3, budget={"samples": 3}, warm_start=1),
        folder / "run",
        callbacks=[watch],
    )
    assert 2 in counts


def test_replies_that_arrive_while_a_run_is_stopped_at_once_are_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stopped(self: Inbox[Any], seconds: float) -> None:
        while len(self._events) < 4:
            await asyncio.sleep(0.01)
        raise asyncio.CancelledError

    monkeypatch.setattr(Inbox, "wait", stopped)
    with Endpoint() as endpoint, pytest.raises(KeyboardInterrupt):
        gx.run(study(openai_arm(endpoint, batch=4), in_flight=4), folder / "run")
    assert journaled(folder / "run") == 4


# -- lost answers -----------------------------------------------------------------------------------


def test_a_server_never_bills_more_than_the_budget_even_for_answers_that_are_cut_off(
    folder: Path,
) -> None:
    """Every fifth request hangs, every seventh reply is cut in half; the server bills them all."""
    bills: list[float] = []

    def behave(call: Call) -> Answer | None:
        if call.route != "/chat/completions":
            return None
        words = text_for("user: a word", call.payload["seed"], 5)
        bills.append(tokens_in(words) * 0.01)
        if len(bills) % 5 == 0:
            return Answer(delay=2.0)
        return HALF if len(bills) % 7 == 0 else None

    with Endpoint() as endpoint:
        endpoint.behave(behave)
        arm = openai_arm(
            endpoint,
            batch=4,
            concurrency=2,
            max_tokens=5,
            price={"input": 0, "output": 10},
            timeout=120,
        )
        retries = {"timeout": 0.1, "first_wait": 0.01, "suspend_after": 50, "attempts": 9}
        gx.run(study(arm, budget={"cost": 1.0}, in_flight=8, retries=retries), folder / "run")
    with JournalReader.open(folder / "run") as journal:
        counted = sum(journal.costs())
        lost = [f for f in journal.failures() if f["cost"] is not None]
    assert sum(bills) <= counted + 1e-9
    assert counted <= 1.0 + 1e-9
    assert {f["cost"] for f in lost} == {0.05}
    messages = {f["message"] for f in lost}
    assert any(
        m == "no answer within 0.4 seconds; its maximum cost of 0.05 is counted." for m in messages
    )
    assert any("closed the connection before" in m for m in messages)


def test_an_arm_without_a_price_counts_nothing_for_a_lost_answer(folder: Path) -> None:
    with Endpoint() as endpoint:
        endpoint.behave(lambda call: HALF if call.number == 3 else None)
        arm = openai_arm(endpoint)
        gx.run(study(arm, retries={"first_wait": 0.01}), folder / "run")
    with JournalReader.open(folder / "run") as journal:
        (failure,) = journal.failures()
        assert failure["cost"] is None
        assert sum(journal.costs()) == 0


def test_of_a_program_only_the_request_that_was_sent_may_cost_something(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import json, sys, time\n"
        "for line in sys.stdin:\n"
        "    if json.loads(line)['index'] == 1: time.sleep(60)\n"
        "    print(json.dumps({'text': 'a'}), flush=True)\n"
    )
    settings = {"kind": "command", "command": [sys.executable, "program.py"], "price": 2.0}
    generator = CommandArm.model_validate(settings).build(Context(tmp_path, 0, "one"))
    arm = ArmState("one", generator, 1, 4, Retries(RetrySettings(timeout=0.5)))
    entries = [Entry(i, "one", i, i, 1.0, 1.0) for i in range(4)]
    events: list[Any] = []

    async def play() -> None:
        await arm.call(entries, events.append)
        await generator.close()

    asyncio.run(play())
    first, *lost = [event.outcome for event in events[:4]]
    assert (first.text, first.cost) == ("a", 2.0)
    assert [(str(e), e.may_be_charged) for e in lost] == [
        ("no answer within 2 seconds.", True),
        ("no answer within 2 seconds.", False),
        ("no answer within 2 seconds.", False),
    ]


# -- implausible costs ------------------------------------------------------------------------------

GREEDY_PROGRAM = """
import json, sys
for number, line in enumerate(sys.stdin):
    cost = COST if number == 1 else 0.5
    print(json.dumps({"text": "abc" * (number + 1), "cost": cost}), flush=True)
"""


@pytest.mark.parametrize("cost", ["1e308", "1e13", "10**400", "float('inf')", "-1"])
def test_an_implausible_cost_is_one_failure_and_the_run_can_be_resumed(
    folder: Path, cost: str
) -> None:
    (folder / "program.py").write_text(GREEDY_PROGRAM.replace("COST", cost))
    arm = {"kind": "command", "command": [sys.executable, "program.py"]}
    plan = study(arm, budget={"samples": 4}, retries={"first_wait": 0.01})

    def stop(live: Any) -> None:
        if live.told == 3:
            live.loop.stop("interrupted")

    gx.run(plan, folder / "run", callbacks=[stop])
    run = gx.resume(folder / "run")
    assert run.status == "finished"
    assert run.summary["cost"] == 4 * 0.5
    assert "has cost" in json.dumps(run.summary["last_failure"])
