"""Reading a run leaves its folder as it was."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import genmix as gx
from genmix.journal.lock import FolderLock
from genmix.journal.reader import JournalReader
from genmix.journal.schema import JOURNAL
from genmix.report import write_report
from tests.support.report_runs import feature_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> gx.Run:
    monkeypatch.setenv("GENMIX_REPORT", "off")
    return feature_run(tmp_path, samples=30)


def files(run: gx.Run) -> dict[str, int]:
    return {each.name: each.stat().st_mtime_ns for each in run.folder.iterdir()}


def test_a_finished_run_is_read_without_a_trace(run: gx.Run, tmp_path: Path) -> None:
    before = files(run)
    assert len(list(run.samples())) == 30
    write_report(run.folder, tmp_path / "report.html")
    assert files(run) == before


def test_empty_logs_of_earlier_readers_are_removed(run: gx.Run) -> None:
    before = files(run)
    uri = f"{(run.folder / JOURNAL).as_uri()}?mode=ro"
    reader = sqlite3.connect(uri, uri=True)
    reader.execute("SELECT * FROM meta").fetchall()
    reader.close()
    assert len(files(run)) == len(before) + 2
    assert run.status == "finished"
    assert files(run) == before


def test_nothing_can_be_written_by_a_reader(run: gx.Run) -> None:
    with JournalReader.open(run.folder) as journal:
        for words in ("DELETE FROM events", "CREATE TABLE t (a)", "PRAGMA user_version = 99"):
            with pytest.raises(sqlite3.Error, match="readonly"):
                journal._db.execute(words)


def test_what_a_killed_writer_left_is_read_and_stays(run: gx.Run) -> None:
    writer = sqlite3.connect(run.folder / JOURNAL, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO events (at, kind, detail) VALUES (0, 'note', '{}')")
    log = run.folder / f"{JOURNAL}-wal"
    content = log.read_bytes()
    with JournalReader.open(run.folder) as journal:
        assert journal.events()[-1]["kind"] == "note"
    assert log.read_bytes() == content
    writer.close()


def test_a_reader_does_not_disturb_a_writer(run: gx.Run) -> None:
    with FolderLock(run.folder):
        writer = sqlite3.connect(run.folder / JOURNAL, isolation_level=None)
        with JournalReader.open(run.folder) as journal:
            count = len(journal.events())
            writer.execute("INSERT INTO events (at, kind, detail) VALUES (0, 'note', '{}')")
            assert len(journal.events()) == count + 1
        writer.execute("INSERT INTO events (at, kind, detail) VALUES (1, 'note', '{}')")
        writer.close()
    with JournalReader.open(run.folder) as journal:
        assert len(journal.events()) == count + 2
