"""The journal's checksum notices every change; older journals read as unverified."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.data.samples import Sample
from genmix.errors import StorageError
from genmix.generators.base import GenerationError
from genmix.journal.integrity import EVENTS, check_run, row_hash, verify
from genmix.journal.journal import Journal
from genmix.journal.reader import JournalReader
from genmix.journal.schema import JOURNAL, Entry, JournalError
from genmix.runs.snapshot import SNAPSHOT

OLD = Path(__file__).parents[1] / "runs" / "data" / "v0.1"
META = {"run": "r", "study": {"name": "s"}, "home": "/somewhere"}


def write(journal: Journal) -> None:
    """Write rows of every kind, and replace those that can be replaced."""
    entries = [Entry(i, "ab"[i % 2], i // 2, i, 0.5, 1.0, probe=i == 3) for i in range(5)]
    journal.asked(entries, 0)
    made: dict[str, Any] = {"quality": -0.0, "cost": 0.25, "input_tokens": 3, "output_tokens": 4}
    journal.made(0, Sample(text="é\0\u2028", prompt="p", **made), None, 1.0)
    journal.made(1, Sample(vector=np.arange(3.0), source="file, row 1", cost=1), None, 2.0)
    journal.told(0, np.arange(3, dtype=np.float32), 5, 5)
    journal.record_time(lambda: 1.5)
    journal.told(1, np.arange(3.0) + 1, 6, 6)
    journal.failure(entries[2], "generate", GenerationError("no", cost=0.5))
    journal.ended(2, "failed", 7)
    journal.event("retire", "a", 8, why="test")
    for weight in (0.25, 0.75):
        journal.write_timeline(2, {"a": weight}, {"vendi": None}, None)
    journal.set_meta("home", "/elsewhere")
    journal.made(4, Sample(vector=np.ones(3, np.float32)), None, 3.0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with Journal.create(tmp_path, META) as journal:
        write(journal)
    return tmp_path


def is_verified(folder: Path) -> bool:
    with JournalReader.open(folder) as journal, journal.snapshot():
        return verify(journal)


def execute(folder: Path, statement: str, *values: Any) -> None:
    with sqlite3.connect(folder / JOURNAL) as db:
        db.execute(statement, values)
    db.close()


def test_every_kind_of_write_keeps_the_checksum_valid(run: Path) -> None:
    assert is_verified(run)
    with Journal.open(run) as journal:  # a later session
        journal.told(4, np.ones(3, np.float32), 9, 9)
        journal.ended(3, "withdrawn", 10)
        journal.event("finished", why="test")
    assert is_verified(run)


CHANGES = [
    "UPDATE samples SET text = 'other' WHERE ticket = 0",
    "UPDATE samples SET cost = 0.26 WHERE ticket = 0",
    "UPDATE samples SET made_at = made_at + 1e-6 WHERE ticket = 1",
    "UPDATE samples SET embedding = zeroblob(24) WHERE ticket = 1",
    "UPDATE samples SET embedding = zeroblob(12) WHERE ticket = 4",
    "UPDATE tickets SET weight = 0.51 WHERE id = 0",
    "UPDATE tickets SET seed = 9 WHERE id = 4",
    "UPDATE tickets SET outcome = 'withdrawn' WHERE id = 2",
    "UPDATE tickets SET ended_step = 70 WHERE id = 2",
    "UPDATE failures SET cost = NULL",
    'UPDATE events SET detail = \'{"why": "best"}\'',
    "UPDATE timeline SET weights = '{\"a\": 0.5}'",
    "UPDATE meta SET value = '\"/there\"' WHERE key = 'home'",
    "UPDATE meta SET value = '9.5' WHERE key = 'seconds'",
    "UPDATE meta SET value = '{}' WHERE key = 'checksum'",
    "DELETE FROM meta WHERE key = 'home'",
    "DELETE FROM meta WHERE key = 'seconds'",
    "DELETE FROM meta WHERE key = 'checksum'",
    "DELETE FROM samples WHERE ticket = 0",
    "DELETE FROM tickets WHERE id = 3",
    "DELETE FROM failures",
    "DELETE FROM events",
    "DELETE FROM timeline",
    "INSERT INTO events (at, kind, detail) VALUES (1.0, 'finished', '{}')",
    "INSERT INTO failures (ticket, arm, at, stage, message) VALUES (0, 'a', 1.0, 'generate', '')",
    "DROP TABLE timeline",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 3",
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_noticed(change: str, run: Path) -> None:
    execute(run, change)
    with pytest.raises(JournalError) as caught:
        is_verified(run)
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text


INVALID = [
    ("UPDATE events SET at = 9e999", "events.at"),
    ("UPDATE events SET at = -1.0", "events.at"),
    ("UPDATE samples SET cost = 9e999", "samples.cost"),
    ("UPDATE samples SET embedding = x'00'", "the embedding of sample"),
    ("UPDATE samples SET dtype = '<i8' WHERE embedding IS NOT NULL", "the embedding of sample"),
    ("UPDATE timeline SET weights = '{\"a\": NaN}'", "timeline.weights"),
    ("UPDATE timeline SET weights = '[1]'", "timeline.weights"),
    ("UPDATE events SET detail = '['", "events.detail"),
    ("UPDATE meta SET value = 'x' WHERE key = 'run'", "meta.value"),
]


@pytest.mark.parametrize("statement, match", INVALID)
def test_invalid_values_are_named_even_in_older_journals(
    statement: str, match: str, run: Path
) -> None:
    execute(run, "DELETE FROM meta WHERE key = 'checksum'")
    execute(run, "PRAGMA user_version = 1")
    assert not is_verified(run)
    execute(run, statement)
    with pytest.raises(JournalError, match=f"is corrupt .{match}"):
        is_verified(run)


def test_a_failed_transaction_leaves_the_checksum_as_it_was(run: Path) -> None:
    with Journal.open(run) as journal:
        with pytest.raises(JournalError, match="could not write"):
            journal.event("retire", "a", 8)  # this step exists
        with pytest.raises(JournalError, match="could not write"):
            journal.made(4, Sample(text="again"), None, 1.0)
        journal.event("finished")
    assert is_verified(run)


def test_the_encoding_of_rows_does_not_depend_on_the_python_version() -> None:
    row = (1, 0.5, "é", b"\0", None, 2**40)
    assert f"{row_hash(EVENTS, row):032x}" == "4ddb3f9e65295ffb4a4cc9fc31e58719"


KILLED = """
import itertools, os, sys
import numpy as np
from pathlib import Path
from genmix.data.samples import Sample
from genmix.journal.journal import Journal
from genmix.journal.schema import Entry

journal = Journal.create(Path(sys.argv[1]), {"run": "r"})
for i in itertools.count():
    journal.asked([Entry(i, "a", i, i, 0.5, 1.0)], 2 * i)
    journal.made(i, Sample(text="x" * 500), None, 1.0)
    journal.told(i, np.ones(200), 2 * i + 1, 2 * i + 1)
    if i == 20:
        print("ready", flush=True)
"""


def test_it_holds_after_a_kill_and_in_the_next_session(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    assert is_verified(tmp_path)
    with Journal.open(tmp_path) as journal:
        journal.event("start")
    assert is_verified(tmp_path)


# -- runs --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("finished")
    np.save(home / "a.npy", np.random.default_rng(0).normal(size=(60, 3)))
    arms = {"a": {"kind": "recorded", "path": str(home / "a.npy"), "cost": 0.5}}
    study = {"arms": arms, "objective": "vendi", "budget": {"samples": 30}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_REPORT", "off")
        return gx.run(study, home / "run").folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GENMIX_REPORT", "off")
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_a_changed_sample_stops_resume_export_and_report(copied: Path) -> None:
    execute(copied, "UPDATE samples SET cost = 0.75 WHERE ticket = 3")
    for action in (
        lambda: gx.resume(copied),
        lambda: gx.export(copied, "jsonl"),
        lambda: gx.Run(copied).report(),
    ):
        with pytest.raises(StorageError, match="its content has changed"):
            action()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn", b"\x93NUMPY", None])
def test_a_damaged_snapshot_does_not_matter_and_is_written_again(
    content: bytes | None, copied: Path
) -> None:
    before, snapshot = gx.Run(copied).summary, copied / SNAPSHOT
    whole = snapshot.read_bytes()
    damaged = whole[:300] + bytes(64) + whole[364:] if content is None else content
    snapshot.write_bytes(damaged)
    assert check_run(copied).selector == "damaged"
    notes: list[str] = []
    after = gx.resume(copied, note=notes.append).summary
    assert after["weights"] == before["weights"]
    assert after["score"] == before["score"]
    [note] = [note for note in notes if SNAPSHOT in note]
    assert "computed from the journal instead" in note
    assert check_run(copied).selector == "valid"


def test_the_report_of_a_run_with_a_damaged_snapshot_says_so(copied: Path) -> None:
    (copied / SNAPSHOT).write_bytes(b"damaged")
    found = CliRunner().invoke(app, ["report", str(copied)])
    assert found.exit_code == 0
    assert "computed from the journal instead" in found.stderr
    assert "computed from the journal instead" in (copied / "report.html").read_text("utf-8")


def test_check_verifies_a_run(copied: Path) -> None:
    assert (copied / "study.yaml").exists() or (copied / "study.yaml").write_text("x")
    found = CliRunner().invoke(app, ["check", str(copied)])
    assert found.exit_code == 0
    assert "journal: verified" in found.stdout
    assert "samples: 30" in found.stdout
    assert "selector.npz: valid" in found.stdout
    content = json.loads(CliRunner().invoke(app, ["check", str(copied), "--json"]).stdout)
    assert content["journal"] == "verified"
    assert content["rows"]["tickets"] == 30
    assert content["problems"] == []


def test_check_finds_damage(copied: Path) -> None:
    execute(copied, "DELETE FROM samples WHERE ticket = 3")
    found = CliRunner().invoke(app, ["check", str(copied)])
    assert found.exit_code == 2
    assert "journal: corrupt" in found.stdout
    (copied / JOURNAL).write_bytes(b"SQLite format 3\0" + bytes(500))
    found = CliRunner().invoke(app, ["check", str(copied), "--json"])
    assert found.exit_code == 2
    assert json.loads(found.stdout)["journal"] == "corrupt"


@pytest.mark.parametrize("name", ["finished", "killed"])
def test_older_runs_are_unverified_and_stay_usable(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(OLD, tmp_path / "old")) / name
    found = CliRunner().invoke(app, ["check", str(folder)])
    assert found.exit_code == 0
    assert "journal: unverified" in found.stdout
    gx.resume(folder)
    assert check_run(folder).journal == "unverified"
