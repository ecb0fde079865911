"""The journal keeps what was committed, refuses what it cannot read, and replays to the same selector."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import genmix as gx
from genmix.data.samples import Sample
from genmix.generators.base import GenerationError
from genmix.journal.journal import Journal
from genmix.journal.kept import keep_rules
from genmix.journal.lock import FolderLock
from genmix.journal.reader import JournalReader
from genmix.journal.schema import JOURNAL, Entry, JournalError, embedding_of
from genmix.runs.session import Session, seed_of
from genmix.runs.snapshot import SNAPSHOT
from tests.support.conformance import assert_same_bits

META = {"run": "r", "study": {"name": "s"}}


def fresh(folder: Path, growth: float = 0.05) -> Session:
    selector = gx.Selector(["a", "b"], gx.Vendi(), warm_start=3, seed=1, resolve_growth=growth)
    return Session(selector, Journal.create(folder, META), study_seed=7)


def again(folder: Path) -> Session:
    selector = gx.Selector(["a", "b"], gx.Vendi(), warm_start=3, seed=1, resolve_growth=0.05)
    session = Session(selector, Journal.open(folder), study_seed=7)
    session.restore()
    return session


def play(session: Session, count: int, dtype: Any = np.float32) -> None:
    """Tells, failures, withdrawals, and tickets left in flight."""
    for i in range(count):
        entry = session.ask()
        session.flush()
        rng = np.random.default_rng(entry.seed)
        row = rng.normal(size=4).astype(dtype) * (1 if entry.arm == "a" else [3, 1, 1, 0.1])
        if i % 7 == 3:
            session.fail(entry)
        elif i % 11 == 5:
            session.withdraw(entry)
        elif i % 5 != 4:
            sample = Sample(text=f"{entry.arm}{entry.place}", cost=0.25)
            session.journal.made(entry.id, sample, None, 0.0)
            asyncio.run(session.tell([(entry, sample, row.astype(dtype))]))


@pytest.mark.parametrize("snapshot", [False, True])
def test_the_same_steps_give_the_same_selector(tmp_path: Path, snapshot: bool) -> None:
    session = fresh(tmp_path)
    play(session, 40)
    if snapshot:
        session.save_snapshot(at_once=True)
    play(session, 25)
    session.retire("a", why="test")
    play(session, 5)
    session.revive("a", why="test")
    play(session, 20)
    session.flush()
    session.journal.close()
    assert (tmp_path / SNAPSHOT).exists() == snapshot
    back = again(tmp_path)
    assert_same_bits(back.selector.state_dict(), session.selector.state_dict())
    ahead = back.ask()
    (expected,) = session.selector.ask()
    assert (ahead.id, ahead.arm) == (expected.id, expected.arm)


def test_small_matrices_keep_to_one_thread(tmp_path: Path) -> None:
    session = fresh(tmp_path)
    seen = []
    plain = session.selector.tell_all

    def look(told: Any) -> None:
        blas = [x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"]
        seen.append(max(blas))
        plain(told)

    session.selector.tell_all = look  # type: ignore[method-assign]
    before = threadpool_info()
    play(session, 3)
    assert set(seen) == {1}
    assert threadpool_info() == before


def test_samples_told_at_once_are_told_at_once_again(tmp_path: Path) -> None:
    session = fresh(tmp_path)
    for size in (6, 1, 9, 20, 4):
        entries = [session.ask() for _ in range(size)]
        session.flush()
        told = []
        for entry in entries:
            sample = Sample(text="x")
            session.journal.made(entry.id, sample, None, 0.0)
            told.append((entry, sample, np.random.default_rng(entry.seed).normal(size=4)))
        asyncio.run(session.tell(told))
    session.journal.close()
    assert sum(session.selector.counts.values()) == 40
    assert_same_bits(again(tmp_path).selector.state_dict(), session.selector.state_dict())


def test_a_torn_or_foreign_snapshot_is_ignored(tmp_path: Path) -> None:
    session = fresh(tmp_path)
    play(session, 30)
    session.journal.close()
    (tmp_path / SNAPSHOT).write_bytes(b"PK\x03\x04 torn")
    assert_same_bits(again(tmp_path).selector.state_dict(), session.selector.state_dict())
    other = tmp_path / "other"
    other.mkdir()
    foreign = Session(gx.Selector(["a", "b"], gx.Vendi()), Journal.create(other, {"run": "x"}), 0)
    foreign.save_snapshot(at_once=True)
    (other / SNAPSHOT).replace(tmp_path / SNAPSHOT)
    assert_same_bits(again(tmp_path).selector.state_dict(), session.selector.state_dict())


def test_places_and_seeds_depend_on_the_arm_and_its_count_alone(tmp_path: Path) -> None:
    session = fresh(tmp_path)
    entries = [session.ask() for _ in range(10)]
    for arm in ("a", "b"):
        mine = [entry for entry in entries if entry.arm == arm]
        assert [entry.place for entry in mine] == list(range(len(mine)))
        assert [entry.seed for entry in mine] == [seed_of(7, arm, i) for i in range(len(mine))]
    seeds = {seed_of(s, arm, i) for s in range(3) for arm in ("a", "b/c") for i in range(50)}
    assert len(seeds) == 300
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_what_was_made_but_not_told_is_found_again(tmp_path: Path) -> None:
    session = fresh(tmp_path)
    made, bare = session.ask(), session.ask()
    session.flush()
    session.journal.made(made.id, Sample(text="hi", quality=0.5, input_tokens=3), None, 1.0)
    session.journal.close()
    (first, row), (second, nothing) = again(tmp_path).journal.open_tickets()
    assert (first, second) == (made, bare)
    assert nothing is None
    assert row is not None
    assert (row["text"], row["quality"], row["input_tokens"]) == ("hi", 0.5, 3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_embeddings_come_back_without_loss(tmp_path: Path, dtype: Any) -> None:
    session = fresh(tmp_path)
    entry = session.ask()
    session.flush()
    row = np.random.default_rng(0).normal(size=5).astype(dtype)
    session.journal.made(entry.id, Sample(text="x"), None, 0.0)
    asyncio.run(session.tell([(entry, Sample(text="x"), row)]))
    (found,) = session.journal.told_rows()
    np.testing.assert_array_equal(embedding_of(found), row)


def test_costs_and_tokens_of_samples_and_failures_are_added(tmp_path: Path) -> None:
    session = fresh(tmp_path)
    entry = session.ask()
    session.flush()
    error = GenerationError("empty", cost=0.03, input_tokens=5, output_tokens=1)
    session.journal.failure(entry, "generate", error)
    session.journal.failure(entry, "encode", ValueError("no"))
    sample = Sample(text="x", cost=0.1, input_tokens=7, output_tokens=2)
    session.journal.made(entry.id, sample, None, 0.0)
    assert sorted(session.journal.costs()) == [0.03, 0.1]
    assert session.journal.tokens() == (12, 3)
    assert session.journal.largest_costs() == {entry.arm: 0.1}
    assert [f["message"] for f in session.journal.failures()] == ["empty", "no"]


def test_running_time_leaves_out_the_time_between_sessions(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, META)
    for at, kind in [(10.0, "start"), (14.0, "retire"), (100.0, "start"), (101.5, "finished")]:
        journal.event(kind)
        journal._db.execute(
            "UPDATE events SET at = ? WHERE id = (SELECT max(id) FROM events)", (at,)
        )
    assert journal.running_time() == pytest.approx(5.5)


def test_running_time_is_that_of_the_sessions_own_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A laptop slept for eight hours in the first session, which was killed; then the clock was set back."""
    clock, wall = iter([2.0, 5.0, 9.0]), iter([0.0, 8 * 3600.0, -3.0, -2.0])
    monkeypatch.setattr("genmix.journal.journal.time.time", lambda: 1e9 + next(wall))
    journal = Journal.create(tmp_path, META)
    journal.event("start")
    assert journal.running_time() == 0
    journal.record_time(lambda: next(clock))
    journal.event("retire")
    assert journal.running_time() == 2.0
    journal.event("start")
    journal.event("finished")
    journal.close()
    assert JournalReader.open(tmp_path).running_time() == 9.0


def test_other_files_are_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        gx.InputError, match=r"is not a run folder because it has no journal\.sqlite"
    ):
        Journal.open(tmp_path)
    (tmp_path / JOURNAL).write_bytes(b"not a database at all" * 100)
    for kind in (Journal, JournalReader):
        with pytest.raises(JournalError, match=r"is not a journal .*restore it from a backup\."):
            kind.open(tmp_path)
    (tmp_path / JOURNAL).unlink()
    Journal.create(tmp_path, META).close()
    with pytest.raises(gx.InputError, match="already contains a run"):
        Journal.create(tmp_path, META)
    with sqlite3.connect(tmp_path / JOURNAL) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(
        JournalError, match=r"has format 99, but this version of genmix reads formats 1 to 2;"
    ):
        Journal.open(tmp_path)


def test_a_corrupt_journal_is_named_with_its_page(tmp_path: Path) -> None:
    with Journal.create(tmp_path, META) as journal:
        fill(journal)
    path = tmp_path / JOURNAL
    content = bytearray(path.read_bytes())
    with sqlite3.connect(path) as db:
        [(page, size)] = db.execute(
            "SELECT rootpage, (SELECT * FROM pragma_page_size) FROM sqlite_master"
            " WHERE name = 'events'"
        )
    content[(page - 1) * size : page * size] = b"\xa5" * size
    path.write_bytes(content)
    message = rf"The journal .* is corrupt \(page {page}\); restore it from a backup\."
    with JournalReader.open(tmp_path) as journal, pytest.raises(JournalError, match=message) as e:
        journal.events()
    assert isinstance(e.value, gx.StorageError)
    assert not isinstance(e.value, ValueError)


@pytest.mark.parametrize("study", [None, "null", "[]", '{"keep": 7}', '{"keep": {"odd": 1}}'])
def test_a_journal_without_a_valid_study_is_corrupt(tmp_path: Path, study: str | None) -> None:
    Journal.create(tmp_path, {"run": "r", "study": {}}).close()
    with sqlite3.connect(tmp_path / "journal.sqlite") as file:
        if study is None:
            file.execute("DELETE FROM meta WHERE key = 'study'")
        else:
            file.execute("UPDATE meta SET value = ? WHERE key = 'study'", (study,))
    with (
        JournalReader.open(tmp_path) as journal,
        pytest.raises(gx.StorageError, match=r"(does not contain the study|invalid 'keep')"),
    ):
        keep_rules(journal)


def test_a_snapshot_does_not_see_later_writes(tmp_path: Path) -> None:
    with Journal.create(tmp_path, META) as journal, JournalReader.open(tmp_path) as reader:
        with reader.snapshot():
            assert reader.events() == []
            journal.event("start")
            assert reader.events() == []
        assert [event["kind"] for event in reader.events()] == ["start"]
        assert reader.events(after=1) == []


def test_a_failed_transaction_leaves_nothing_and_says_so(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, META)
    entry = Entry(0, "a", 0, 1, 0.5, 0.5)
    journal.asked([entry], 0)
    with pytest.raises(JournalError, match=r"could not write .*; .* then run `genmix resume`"):
        journal.asked([Entry(1, "a", 1, 1, 0.5, 0.5), entry], 1)
    assert [found.id for found, _ in journal.open_tickets()] == [0]


def fill(journal: Journal) -> None:
    for number in range(1000):
        journal.event("start", text="x" * 1000, number=number)


def test_a_disk_without_room_is_said_in_one_sentence(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, META)
    (pages,) = journal._db.execute("PRAGMA page_count").fetchone()
    journal._db.execute(f"PRAGMA max_page_count = {pages}")  # SQLite then reports a full disk
    with pytest.raises(JournalError, match=r"disk is full\); free disk space"):
        fill(journal)
    kept = len(journal.events())
    journal.close()
    assert len(Journal.open(tmp_path).events()) == kept


def test_a_new_journal_is_whole_before_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be copied into it only then can be missing afterwards, unsaid, where the disk is full."""
    copies, close = [], Journal.close

    def look_and_close(journal: Journal) -> None:
        copies.append(shutil.copy(journal.path, tmp_path / f"copy{len(copies)}"))
        close(journal)

    monkeypatch.setattr(Journal, "close", look_and_close)
    Journal.create(tmp_path, META)
    with sqlite3.connect(copies[0]) as alone:
        assert alone.execute("SELECT value FROM meta WHERE key = 'run'").fetchall() == [('"r"',)]


def ended(folder: Path) -> None:
    journal = Journal.create(folder, META)
    journal.event("finished")
    journal.close()
    (folder / f"{JOURNAL}-shm").symlink_to(folder / "no" / "where")  # also root cannot make it now


def test_a_journal_is_read_where_nothing_can_be_made_beside_it(tmp_path: Path) -> None:
    """As on read-only media, or in a folder of somebody else."""
    ended(tmp_path)
    journal = JournalReader.open(tmp_path)
    assert [event["kind"] for event in journal.events()] == ["finished"]
    (tmp_path / f"{JOURNAL}-wal").touch()
    assert JournalReader.open(tmp_path).meta("run") == "r"


def test_a_journal_that_cannot_be_opened_is_not_called_corrupt(tmp_path: Path) -> None:
    ended(tmp_path)
    (tmp_path / f"{JOURNAL}-wal").write_bytes(b"left by a killed writer")
    message = (
        r"could not open .* \(unable to open .*\); check the folder's permissions and free space"
    )
    with pytest.raises(JournalError, match=message):
        Journal.open(tmp_path)
    with JournalReader.open(tmp_path) as journal:  # reads a copy
        assert [event["kind"] for event in journal.events()] == ["finished"]


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    with (
        FolderLock(tmp_path),
        pytest.raises(gx.InputError, match=f"in use by process {os.getpid()}"),
        FolderLock(tmp_path),
    ):
        pass
    with FolderLock(tmp_path):
        pass


def test_the_lock_dies_with_its_holder(tmp_path: Path) -> None:
    code = """
        import sys, time
        from pathlib import Path
        from genmix.journal.lock import FolderLock
        with FolderLock(Path(sys.argv[1])):
            print("held", flush=True)
            time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(gx.InputError, match=f"in use by process {holder.pid}"):
            FolderLock(tmp_path).__enter__()
        holder.send_signal(signal.SIGKILL)
    with FolderLock(tmp_path):
        pass
