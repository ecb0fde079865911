"""Secrets that arms, servers and encoders repeat reach no file, page or terminal."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app, plain_errors
from genmix.core import masking
from genmix.core.masking import forms_of, mask, mask_end, masked_error, remember_secret
from genmix.core.text import quotable
from tests.support.endpoint import Answer, Call, Endpoint, error, says

KEY = 'sk-echo/"7f3a+9c2e=51d8\\b604'
"""With characters that URLs and JSON write differently."""

PROGRAM_KEY = "prog-0a1b2c3d4e5f"
OWN_KEY = "own-9f8e7d6c5b4a3"

MODULE = """
import os, json
import numpy as np

def talk(seeds):
    if seeds[0] % 2:
        error = RuntimeError("no luck with " + "x" * 180 + os.environ["OWN_API_KEY"])
        error.add_note(os.environ["OWN_API_KEY"])
        raise error from ValueError(os.environ["ENDPOINT_KEY"])
    return [f"text {s}, key {os.environ['OWN_API_KEY']}" for s in seeds]

def embed(texts):
    if any("reject" in text for text in texts):
        raise ValueError("cannot embed with " + os.environ["OWN_API_KEY"])
    return np.array([[1.0, len(t) % 7, hash(t) % 5] for t in texts])
"""

PROGRAM = """
import json, os, sys
key = os.environ["PROGRAM_KEY"]
for line in sys.stdin:
    index = json.loads(line)["index"]
    if index % 4 == 1:
        print(json.dumps({"error": "bad key " + key}), flush=True)
    elif index % 4 == 3:
        sys.stderr.write(key * 1000 + " " * 4090 + key)
        sys.exit(1)
    else:
        print(json.dumps({"text": f"{index} {key}", "prompt": "my " + key}), flush=True)
"""


def echo(call: Call) -> Answer | None:
    """Repeat the key that the client sent, in replies and in errors."""
    key = call.headers["authorization"].removeprefix("Bearer ")
    if call.route == "/models":
        return None
    if call.number % 3 == 0:
        return error(500, "x" * 190 + key)
    shown = (key, quote(key, safe=""), base64.b64encode(f"me:{key}".encode()).decode())
    text = f"number {call.number}: {shown[call.number % 3]} {key}"
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    return says({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})


def write_study(folder: Path, url: str, **more: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "masked_arms.py").write_text(MODULE)
    (folder / "program.py").write_text(PROGRAM)
    study = {
        "name": "masked",
        "arms": {
            "server": {
                "kind": "openai",
                "model": "m",
                "base_url": url,
                "api_key_env": "ENDPOINT_KEY",
                "prompt": "say",
            },
            "program": {
                "kind": "command",
                "command": [sys.executable, "program.py"],
                "env": ["PROGRAM_KEY"],
            },
            "function": {"kind": "callable", "function": "masked_arms:talk"},
        },
        "encoder": {"kind": "callable", "function": "masked_arms:embed"},
        "objective": "vendi",
        "budget": {"samples": 18},
        "warm_start": 4,
        "retries": {"attempts": 4, "first_wait": 0.001, "longest_wait": 0.01},
        **more,
    }
    (folder / "study.yaml").write_text(json.dumps(study))
    return folder / "study.yaml"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_forms", ())
    monkeypatch.setenv("ENDPOINT_KEY", KEY)
    monkeypatch.setenv("PROGRAM_KEY", PROGRAM_KEY)
    monkeypatch.setenv("OWN_API_KEY", OWN_KEY)


def fragments() -> set[str]:
    """What must not appear: every form of every key, and parts of them that a cut would leave."""
    found = {form for key in (KEY, PROGRAM_KEY, OWN_KEY) for form in forms_of(key)}
    return found | {PROGRAM_KEY[:9], OWN_KEY[:9], KEY[:9]} | {PROGRAM_KEY[-8:], OWN_KEY[-8:]}


def leaks(content: bytes) -> list[str]:
    return [part for part in fragments() if part.encode() in content]


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of a run, unpacked, and every value of its journal."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        data = path.read_bytes()
        yield path.name, data
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    yield f"{path.name}/{name}", archive.read(name)
        if path.suffix == ".parquet":
            yield f"{path.name} unpacked", str(parquet.read_table(path).to_pylist()).encode()
    database = sqlite3.connect(folder / "journal.sqlite")
    yield "journal", "\n".join(database.iterdump()).encode()
    database.close()


def output_of(*command: object) -> str:
    result = CliRunner().invoke(app, [str(part) for part in command])
    assert result.exit_code == 0, result.output
    return result.output


def test_no_channel_shows_a_secret(tmp_path: Path) -> None:
    """A server, a program and a function that repeat their keys, and everything that comes of it."""
    from genmix.dashboard.actions import Actions
    from genmix.dashboard.page_data import list_entry, run_data
    from genmix.monitoring.monitor import RunMonitor

    folder = tmp_path / "run"
    with Endpoint() as endpoint:
        endpoint.behave(echo)
        study = write_study(tmp_path / "study", endpoint.url)
        outputs = output_of("run", study, "--out", folder)
    outputs += output_of("export", folder, "--to", "parquet")
    outputs += output_of("report", folder)
    assert leaks(outputs.encode()) == []
    summary = json.loads((folder / "summary.json").read_text())
    assert set(summary["last_failure"]) == {"server", "program", "function"}
    for message in summary["last_failure"].values():
        assert "***" in message or "…" in message
    texts = [row["text"] for row in gx.Run(folder).samples()]
    assert all("***" in text for text in texts)
    assert any(row["prompt"] == "my ***" for row in gx.Run(folder).samples())
    for name, data in contents(folder):
        assert leaks(data) == [], name
    monitor = RunMonitor(folder)
    shown = [run_data("run", monitor, Actions()), list_entry("run", monitor, Actions())]
    assert leaks(json.dumps(shown).encode()) == []


def test_stderr_is_masked_before_it_is_cut(tmp_path: Path) -> None:
    """What is kept begins with the end of a key, and only spaces separate it from a whole one."""
    folder = tmp_path / "run"
    arms = write_study(tmp_path / "study", "http://127.0.0.1:1/v1")
    study = json.loads(arms.read_text())
    study |= {"arms": {"program": study["arms"]["program"]}, "budget": {"samples": 6}}
    arms.write_text(json.dumps(study))
    gx.run(arms, folder)
    database = sqlite3.connect(folder / "journal.sqlite")
    messages = [m for (m,) in database.execute("SELECT message FROM failures") if "stderr" in m]
    database.close()
    assert messages
    assert all(re.search(r"\(stderr: \*\*\*( \*\*\*)?\)\.$", m) for m in messages), messages


def test_errors_of_encoders_are_masked(tmp_path: Path) -> None:
    (tmp_path / "rejecting.py").write_text("def talk(seeds):\n    return ['reject'] * len(seeds)\n")
    path = write_study(tmp_path, "http://127.0.0.1:1/v1")
    study = json.loads(path.read_text())
    study["arms"] = {"function": {"kind": "callable", "function": "rejecting:talk"}}
    path.write_text(json.dumps(study))
    run = gx.run(path, tmp_path / "run")
    assert run.status == "trouble"
    assert "cannot embed with ***" in run.summary["reason"]
    for name, data in contents(tmp_path / "run"):
        assert leaks(data) == [], name


def test_a_traceback_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    remember_secret(OWN_KEY)
    command = typer.Typer(pretty_exceptions_enable=False)

    @command.command()
    def fail() -> None:
        with plain_errors():
            problem = RuntimeError("it failed")
            problem.add_note(f"the key is {OWN_KEY}")
            raise problem from ValueError(f"bad key {OWN_KEY}")

    result = CliRunner().invoke(command, [])
    assert result.exit_code == 1
    assert "it failed" in result.stderr
    assert "the key is ***" in result.stderr
    assert OWN_KEY not in result.stderr


@pytest.mark.parametrize(
    "secret",
    ["plain0123456", 'a"b\\c/d+e=f g', "schlüssel-ä-123", "two\nlines of a long secret 123"],
)
def test_every_form_is_masked(secret: str) -> None:
    remember_secret(secret)
    data = secret.encode()
    for form in (
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret, safe=""),
        re.sub("%..", lambda code: code[0].lower(), quote(secret, safe="")),
        data.hex(),
        repr(secret)[1:-1],
    ):
        assert mask(f"<{form}>") == "<***>"
    for before in ("", "u", "us", "user:"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            shown = mask(encode(before.encode() + data + b":end").decode())
            assert "***" in shown
            left = shown.replace("***", "")
            assert len(left) <= len(encode(before.encode() + b":end")) + 6


def test_short_values_and_ordinary_words_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_secret("12345")
    monkeypatch.setenv("THREADS", "8")
    monkeypatch.setenv("LANGUAGE_NAME", "english")
    monkeypatch.setenv("MODELS", "/data/models")
    monkeypatch.setenv("SERVER", "http://127.0.0.1:8080/v1")
    monkeypatch.setenv("DB_PASSWORD", "postgres")
    masking.remember_variables(["THREADS", "LANGUAGE_NAME", "MODELS", "SERVER"])
    masking.remember_environment()
    text = "12345 8 english /data/models http://127.0.0.1:8080/v1 postgres"
    assert mask(text) == text
    masking.remember_variables(["DB_PASSWORD"])  # the study names it, and its name says what it is
    assert mask("postgres") == "***"


def test_text_is_masked_before_it_is_shortened() -> None:
    remember_secret(OWN_KEY)
    for length in range(180, 205):
        assert OWN_KEY[:4] not in quotable("x" * length + OWN_KEY)


@pytest.mark.parametrize("cut", range(1, len(PROGRAM_KEY)))
def test_the_rest_of_a_cut_secret_is_dropped(cut: int) -> None:
    remember_secret(PROGRAM_KEY)
    remembered = masking.longest_form()
    text = PROGRAM_KEY[cut:] + "z" * remembered + PROGRAM_KEY + "end"
    shown = mask_end(text, 4096, is_cut=True)
    assert shown == "z" * (len(PROGRAM_KEY) - cut) + "***end"
    assert mask_end(PROGRAM_KEY + "end", 4096, is_cut=False) == "***end"


def test_masked_errors_keep_their_type() -> None:
    remember_secret(OWN_KEY)
    clean = gx.InputError("fine")
    assert masked_error(clean) is clean
    found = masked_error(gx.InputError(f"bad {OWN_KEY}"))
    assert (type(found), str(found)) == (gx.InputError, "bad ***")
    odd = masked_error(UnicodeDecodeError("utf-8", b"", 0, 1, OWN_KEY))
    assert OWN_KEY not in str(odd)


def test_images_and_vectors_are_not_changed() -> None:
    from genmix.data.samples import Sample
    from genmix.engines.outcomes import validated

    remember_secret(OWN_KEY)
    sample = Sample(vector=np.ones(3), source=f"file {OWN_KEY}")
    found = validated(sample)
    assert isinstance(found, Sample)
    assert found.vector is sample.vector
    assert found.source == "file ***"
