"""Programs as arms: the conversation, its faults, and that no shell is involved."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from genmix.data.png import as_png
from genmix.errors import InputError
from genmix.generators import CommandArm, Context, GenerationError, Request, Sample, collect
from tests.support.asking import ask, use

LOOP = """
import json, os, sys, time
def say(reply):
    print(json.dumps(reply), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
"""


def arm_of(folder: Path, body: str, **settings: Any) -> Any:
    """An arm whose program does ``body`` with every request, which is called ``asked``."""
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    (folder / "program.py").write_text(LOOP + indented)
    settings = {"kind": "command", "command": [sys.executable, "program.py"], **settings}
    return CommandArm.model_validate(settings).build(Context(folder, 0, "arm"))


def failure(generator: Any) -> GenerationError:
    (outcome,) = ask(generator)
    assert isinstance(outcome, GenerationError)
    return outcome


# -- replies ----------------------------------------------------------------------------------------


def test_texts_images_and_vectors(tmp_path: Path) -> None:
    png = base64.b64encode(as_png(np.zeros((2, 2), np.uint8))).decode()
    body = f"""
say([{{"text": "a", "index": 0, "quality": 0.5, "cost": 0.1, "input_tokens": 3, "output_tokens": 4}},
     {{"image_base64": {png!r}, "prompt": "mine"}},
     {{"vector": [1, 2.5], "text": None}}][asked["index"]])
"""
    text, image, vector = ask(arm_of(tmp_path, body, prompts=["one", "two"]), 3)
    assert text == Sample(
        text="a", prompt="one", quality=0.5, cost=0.1, input_tokens=3, output_tokens=4
    )
    assert image == Sample(image=base64.b64decode(png), prompt="mine")
    assert vector.vector.tolist() == [1, 2.5]


def test_one_process_answers_all_requests(tmp_path: Path) -> None:
    generator = arm_of(tmp_path, 'say({"text": str(os.getpid())})')

    async def several(g: Any) -> set[str]:
        calls = [collect(g, [Request(i, i), Request(i + 1, i)]) for i in range(3)]
        return {sample.text for call in await asyncio.gather(*calls) for sample in call}

    assert len(use(generator, several)) == 1


def test_each_reply_arrives_before_the_next_request_is_sent(tmp_path: Path) -> None:
    body = """
if asked["index"] == 1: time.sleep(60)
say({"text": "first"})
"""

    async def first(g: Any) -> Any:
        stream = g.generate([Request(0, 0), Request(1, 1)])
        arrived = await anext(stream)
        await stream.aclose()
        return arrived

    assert use(arm_of(tmp_path, body), first) == (0, Sample(text="first"))


def test_what_is_asked(tmp_path: Path) -> None:
    (sample,) = ask(arm_of(tmp_path, 'say({"text": json.dumps(asked)})'))
    assert sample.text == '{"index": 0, "seed": 100}'
    (sample,) = ask(arm_of(tmp_path, 'say({"text": json.dumps(asked)})', prompt="p"))
    assert sample.text == '{"index": 0, "seed": 100, "prompt": "p"}'


def test_the_program_runs_in_the_folder_of_the_study(tmp_path: Path) -> None:
    (sample,) = ask(arm_of(tmp_path, 'say({"text": os.getcwd()})'))
    assert Path(sample.text).resolve() == tmp_path.resolve()


NASTY = "$(touch pwned) `touch pwned`; touch pwned & | > pwned \n\"'\\ $HOME {x} %s é \u2028"


def test_shell_characters_are_only_characters(tmp_path: Path) -> None:
    (sample,) = ask(arm_of(tmp_path, 'say({"text": asked["prompt"]})', prompt=NASTY))
    assert sample.text == NASTY
    command = [sys.executable, "program.py", NASTY]
    (sample,) = ask(arm_of(tmp_path, 'say({"text": sys.argv[1]})', command=command))
    assert sample.text == NASTY
    assert {path.name for path in tmp_path.iterdir()} == {"program.py"}


def test_a_large_reply_fits(tmp_path: Path) -> None:
    (sample,) = ask(arm_of(tmp_path, 'say({"text": "x" * 3_000_000})'))
    assert len(sample.text) == 3_000_000


def test_a_price_is_what_a_sample_costs_that_says_nothing(tmp_path: Path) -> None:
    generator = arm_of(tmp_path, 'say({"text": "a"})', price=2)
    assert generator.most_cost() == 2
    assert ask(generator)[0].cost == 2
    above = failure(arm_of(tmp_path, 'say({"text": "a", "cost": 3})', price=2))
    assert (above.cost, above.retryable) == (3, False)


# -- faults -----------------------------------------------------------------------------------------


def test_an_error_of_the_programs_own(tmp_path: Path) -> None:
    busy = failure(arm_of(tmp_path, 'say({"error": "busy\\nnow", "cost": 0.5, "index": 0})'))
    assert "reports busy now." in str(busy)
    assert (busy.retryable, busy.cost) == (True, 0.5)
    dead = failure(arm_of(tmp_path, 'say({"error": "no licence", "retryable": False})'))
    assert not dead.retryable


@pytest.mark.parametrize(
    "reply, said",
    [
        ("{'text': 5}", "text of type int"),
        ("{'text': 'a', 'vector': [1]}", "exactly one of text"),
        ("{'text': None}", "exactly one of text"),
        ("{'text': 'a', 'seed': 1}", "has the unknown field 'seed'"),
        ("{'vector': [1, float('nan')]}", "NaN"),
        ("{'image_base64': '§'}", "not base64"),
        ("{'image_base64': 'aaaa'}", "not a PNG"),
        ("{'text': 'a', 'cost': 'much'}", "cost 'much'"),
    ],
)
def test_a_faulty_sample_is_one_failure_of_the_same_process(
    reply: str, said: str, tmp_path: Path
) -> None:
    body = f'say({reply} if asked["index"] == 0 else {{"text": str(len(asked))}})'
    bad, good = ask(arm_of(tmp_path, body), 2)
    assert isinstance(bad, GenerationError)
    assert bad.retryable
    assert said in str(bad)
    assert good == Sample(text="2")


@pytest.mark.parametrize(
    "line, said",
    [
        (
            "print('loading the model', flush=True)",
            "'loading the model', which is not a valid reply",
        ),
        ("print('[1]', flush=True)", "which is not a valid reply"),
        ("say({'level': 'info'})", "which is not a valid reply"),
        ("say({'text': 'a', 'index': 7})", "answered request 7 instead of 0"),
        ("print('x' * 100, end='', flush=True); sys.exit(0)", "exited without a reply"),
        ("sys.exit('no weights: key-123456 refused')", "(stderr: no weights: *** refused)"),
        ("os.close(0); os.close(1); time.sleep(60)", "exited without a reply"),
    ],
)
def test_after_a_line_that_is_no_reply_the_program_is_started_anew(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes next might be the reply to this request, so the next request goes to a new process."""
    monkeypatch.setenv("MY_KEY", "key-123456")
    body = f"""
if asked["index"] == 0:
    {line}
say({{"text": f"reply to {{asked['index']}}"}})
"""
    bad, good = ask(arm_of(tmp_path, body, env=["MY_KEY"]), 2)
    assert isinstance(bad, GenerationError)
    assert bad.retryable
    assert said in str(bad)
    assert good == Sample(text="reply to 1")


def test_the_end_of_stderr_is_quoted(tmp_path: Path) -> None:
    error = failure(arm_of(tmp_path, 'print("much ado " * 2000, file=sys.stderr); 1 / 0'))
    assert str(error).endswith("ZeroDivisionError: division by zero).")
    assert len(str(error)) < 700


def test_a_line_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genmix.generators.command.LONGEST_REPLY", 1000)
    assert "more than 1000 bytes" in str(failure(arm_of(tmp_path, 'say({"text": "x" * 5000})')))


def test_a_late_reply_is_never_anothers(tmp_path: Path) -> None:
    """Each cancelled request would be answered 0.1 s later, when the next one is already there."""
    generator = arm_of(tmp_path, 'time.sleep(0.1); say({"text": str(asked["seed"])})')

    async def impatient(g: Any) -> list[Any]:
        found = []
        for seed in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(collect(g, [Request(0, 50 + seed)]), 0.05)
            found += await collect(g, [Request(0, seed)])
        return found

    assert use(generator, impatient) == [Sample(text=str(seed)) for seed in range(3)]


def test_what_waits_for_its_turn_can_be_cancelled_without_harm(tmp_path: Path) -> None:
    generator = arm_of(tmp_path, 'time.sleep(0.1); say({"text": str(os.getpid())})')

    async def crowd(g: Any) -> set[str]:
        (before,) = await collect(g, [Request(0, 0)])
        first = asyncio.ensure_future(collect(g, [Request(1, 0)]))
        second = asyncio.ensure_future(collect(g, [Request(2, 0)]))
        await asyncio.sleep(0.02)
        second.cancel()
        (after,) = await first
        return {before.text, after.text}

    assert len(use(generator, crowd)) == 1  # the process went on


def test_closing_ends_even_a_program_that_ignores_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genmix.generators.command.EXIT_SECONDS", 0.05)
    body = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say({"text": str(os.getpid())})
while asked["index"] == 0: time.sleep(60)
"""
    (sample,) = ask(arm_of(tmp_path, body))
    with pytest.raises(ProcessLookupError):
        os.kill(int(sample.text), 0)


def test_programs_that_are_not_there(tmp_path: Path) -> None:
    for command in (["surely-not-there"], ["./program.sh"]):
        generator = arm_of(tmp_path, "pass", command=command)
        with pytest.raises(GenerationError, match="cannot be started") as caught:
            use(generator, lambda g: g.ping())
        assert command[0] in str(caught.value)
        generator = arm_of(tmp_path, "pass", command=command)
        error = failure(generator)
        assert "cannot be started" in str(error)
        assert not error.retryable


def test_a_program_beside_the_study_is_found_there(tmp_path: Path) -> None:
    script = tmp_path / "program.sh"
    script.write_text('#!/bin/sh\nread line\necho \'{"text": "from a script"}\'\n')
    script.chmod(0o755)
    generator = arm_of(tmp_path, "pass", command=["./program.sh"])

    async def both(g: Any) -> Any:
        await g.ping()
        return await collect(g, [Request(0, 1)])

    assert use(generator, both) == [Sample(text="from a script")]


# -- settings ---------------------------------------------------------------------------------------


def test_only_named_variables_reach_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOWN", "1")
    monkeypatch.setenv("HIDDEN_KEY", "secret")
    body = (
        'say({"text": json.dumps([k for k in ("SHOWN", "HIDDEN_KEY", "PATH") if k in os.environ])})'
    )
    (sample,) = ask(arm_of(tmp_path, body, env=["SHOWN"]))
    assert sample.text == '["SHOWN", "PATH"]'


def test_a_variable_that_is_not_set(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="NOT_SET_ANYWHERE is not set"):
        arm_of(tmp_path, "pass", env=["NOT_SET_ANYWHERE"])


@pytest.mark.parametrize(
    "command, said",
    [
        ("python generate.py", r"write a list, e.g. \[python, generate.py\]"),
        ([], "at least 1"),
        ([""], "empty program"),
        (["a\0b"], "null character"),
    ],
)
def test_commands_that_are_none(command: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=said):
        arm_of(tmp_path, "pass", command=command)
