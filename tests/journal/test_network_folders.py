"""Runs on network file systems and in read-only folders: what is refused, and how they are read."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.journal import file_systems, lock, private_copy
from genmix.journal.file_systems import FileSystem, file_system_of, network_warning
from genmix.journal.journal import Journal
from genmix.journal.lock import FolderLock, holder
from genmix.journal.reader import JournalReader
from genmix.journal.schema import JOURNAL, ChangedJournalError, JournalError
from genmix.monitoring import monitor
from genmix.monitoring.monitor import RunMonitor
from tests.support.report_runs import feature_run


@pytest.fixture(autouse=True)
def _without_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretend that the folder of the test is on this file system."""

    def mount(kind: str, options: str = "rw") -> Path:
        return pretend(tmp_path, kind, options, monkeypatch)

    return mount


def pretend(folder: Path, kind: str, options: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    mounts = folder / "mounts"
    place = str(folder.resolve()).replace(" ", "\\040")
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/export {place} {kind} {options} 0 0\n")
    monkeypatch.setattr(file_systems, "MOUNTS", mounts)
    return mounts


# -- detection ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "is_network", "shares_locks"),
    [
        ("ext4", "rw", False, True),
        ("overlay", "rw", False, True),
        ("fuse.fuse-overlayfs", "rw", False, True),
        ("nfs4", "rw,vers=4.2", True, True),
        ("nfs", "rw,nolock", True, False),
        ("nfs", "rw,local_lock=all", True, False),
        ("cifs", "rw", True, True),
        ("smb3", "rw,nobrl", True, False),
        ("lustre", "rw,flock", True, True),
        ("lustre", "rw,localflock", True, False),
        ("gpfs", "rw", True, True),
        ("beegfs", "rw", True, True),
        ("fuse.sshfs", "rw", True, False),
        ("9p", "rw", True, False),
    ],
)
def test_kinds_of_file_systems(
    mounted: Any, tmp_path: Path, kind: str, options: str, is_network: bool, shares_locks: bool
) -> None:
    mounted(kind, options)
    found = file_system_of(tmp_path / "not" / "there yet")
    assert found.kind == kind
    assert found.is_network == is_network
    assert found.shares_locks == shares_locks
    assert (network_warning(tmp_path) is not None) == is_network
    assert not file_system_of(Path("/elsewhere")).is_network


def test_the_innermost_and_latest_mount_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a b"
    (folder / "scratch").mkdir(parents=True)
    mounts = pretend(folder, "nfs4", "rw", monkeypatch)
    assert file_system_of(folder / "runs").kind == "nfs4"
    assert file_system_of(tmp_path / "a").kind == "ext4"
    place = str(folder.resolve()).replace(" ", "\\040")
    mounts.write_text(mounts.read_text() + f"tmpfs {place}/scratch tmpfs rw 0 0\n")
    assert file_system_of(folder / "scratch" / "run").kind == "tmpfs"
    mounts.write_text(mounts.read_text() + f"x {place} xfs rw 0 0\n")
    assert file_system_of(folder / "runs").kind == "xfs"
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert file_system_of(link / "runs").kind == "xfs"


def test_without_a_list_of_mounts_everything_is_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_systems, "MOUNTS", tmp_path / "missing")
    assert file_system_of(tmp_path) == FileSystem()


# -- writing -----------------------------------------------------------------------------------------


def test_a_run_on_a_network_file_system_warns_and_uses_no_shared_memory(
    mounted: Any, tmp_path: Path
) -> None:
    mounted("nfs4")
    notes: list[str] = []
    names: set[str] = set()
    run = feature_run(
        tmp_path,
        60,
        note=notes.append,
        callbacks=[lambda live: names.update(os.listdir(live.folder))],
    )
    assert run.status == "finished"
    assert [line for line in notes if "network file system (nfs4)" in line]
    assert f"{JOURNAL}-wal" in names
    assert f"{JOURNAL}-shm" not in names
    assert len(list(run.samples())) == 60
    notes.clear()
    assert sum(gx.resume(run, samples=60, note=notes.append).counts.values()) == 60
    assert [line for line in notes if "network file system" in line]


def test_the_same_run_on_both(mounted: Any, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    local = feature_run(tmp_path / "one", 60, in_flight=1)
    mounted("lustre", "rw,flock")
    (tmp_path / "two").mkdir()
    shared = feature_run(tmp_path / "two", 60, in_flight=1)
    assert local.weights == shared.weights
    assert local.counts == shared.counts


def test_a_second_machine_is_refused_where_locks_are_not_shared(
    mounted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / JOURNAL).touch()
    with FolderLock(tmp_path):
        content = (tmp_path / "lock").read_text()
    (tmp_path / "lock").write_text(content or f"123 {lock.place()}\n")
    mounted("fuse.sshfs")
    with FolderLock(tmp_path):
        pass  # left by a process of this machine that was killed: the lock itself is reliable
    (tmp_path / "lock").write_text("123 other/pid:[1]\n")
    assert holder(tmp_path) == lock.Holder(None)
    with pytest.raises(gx.InputError, match=r"may be in use .* \(fuse.sshfs\); .*delete .*lock"):
        FolderLock(tmp_path).__enter__()
    os.utime(tmp_path / JOURNAL, (0, 0))
    assert holder(tmp_path) is None  # it was killed long ago
    mounted("nfs4")
    with FolderLock(tmp_path):
        pass  # here, the lock says that it has ended


def test_a_file_system_without_locks_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: Any) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", flock)
    with pytest.raises(gx.StorageError, match=r"could not lock .*No locks available.*local disk"):
        FolderLock(tmp_path).__enter__()


# -- reading -----------------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from genmix.journal import file_systems
file_systems.MOUNTS = Path(sys.argv[2])
from genmix.journal.journal import Journal
with Journal.open(Path(sys.argv[1])) as journal:
    journal.query("PRAGMA wal_autocheckpoint = 50")
    journal.event("start")  # creates the log
    print("open", flush=True)
    n = 0
    for line in sys.stdin:  # each line asks for a burst that restarts the log about twice
        for _ in range(60):
            with journal.transaction():
                for _ in range(5):
                    n += 1
                    detail = '{"text": "' + 500 * "x" + '"}'
                    journal._append(EVENTS, (float(n), "note", None, None, detail))
"""


@pytest.fixture
def writer(tmp_path: Path, mounted: Any) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A run folder, and a function that makes another process write to it, five rows at a time."""
    mounts = mounted("nfs4")
    run = feature_run(tmp_path, 30)
    code = WRITER.replace(
        "import sys\n", "import sys\nfrom genmix.journal.integrity import EVENTS\n", 1
    )
    command = [sys.executable, "-c", code, str(run.folder), str(mounts)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "open\n"

        def write() -> None:
            print(file=process.stdin, flush=True)

        write()
        yield run.folder, write
        process.kill()


def notes_in(folder: Path) -> int:
    with JournalReader.open(folder) as journal, journal.snapshot():
        found = [e for e in journal.events() if e["kind"] == "note"]
        assert [e["at"] for e in found] == [float(n) for n in range(1, len(found) + 1)]
        [(report,)] = journal.query("PRAGMA quick_check")
        assert report == "ok"
    return len(found)


def test_a_writer_on_another_machine_is_read_without_a_trace(writer: Any) -> None:
    folder, write = writer
    seen, headers = [0], set[bytes]()
    while len(seen) < 12 or seen[-1] < 600 or len(headers) < 3:
        write()
        headers.add(private_copy._header(folder / JOURNAL))
        seen.append(notes_in(folder))
        assert f"{JOURNAL}-shm" not in os.listdir(folder)
    assert all(count % 5 == 0 for count in seen)  # whole transactions
    assert seen == sorted(seen)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(notes_in(folder))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4


def test_a_monitor_follows_it_at_its_own_pace(writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, write = writer
    reads: list[float] = []
    original = RunMonitor._read

    def counted(self: RunMonitor, journal: JournalReader) -> None:
        reads.append(0)
        original(self, journal)

    monkeypatch.setattr(RunMonitor, "_read", counted)
    run = RunMonitor(folder)
    run.refresh()
    write()
    first = len(run.events)
    run.refresh()
    run.refresh()
    assert len(reads) == 1  # the pause has not passed
    run._next_read = 0.0
    while len(run.events) == first:
        run._next_read = 0.0
        run.refresh()
    assert run.samples == 30


def test_a_log_that_is_restarted_during_a_copy_is_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: Any
) -> None:
    mounted("nfs4")
    run = feature_run(tmp_path, 30)
    original, copied = private_copy._copy, list[str]()

    def copy(source: Path, *more: Any) -> None:
        original(source, *more)
        copied.append(source.name)
        if len(copied) == 1:
            writing.query("PRAGMA wal_checkpoint(RESTART)")
            for _ in range(50):
                writing.event("note", text=500 * "x")

    monkeypatch.setattr(private_copy, "_copy", copy)
    with Journal.open(run.folder) as writing:
        writing.event("start")
        with JournalReader.open(run.folder) as journal:
            assert [e["kind"] for e in journal.events()].count("note") == 50
            assert journal.query("PRAGMA quick_check") == [("ok",)]
    assert copied == [JOURNAL, f"{JOURNAL}-wal"] * 2


@pytest.mark.parametrize("read", ["reader", "monitor"])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_run_that_ends_during_a_copy_is_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: Any, read: str, is_open: bool
) -> None:
    """Its last checkpoint removes the log, which another machine may be reading (``is_open``)."""
    mounted("nfs4")
    run = feature_run(tmp_path, 30)
    original, copied = private_copy._copy, list[str]()
    writing = Journal.open(run.folder)
    writing.event("start")
    writing.event("note", text="the last one")

    def copy(source: Path, *more: Any) -> None:
        if is_open and copied == [JOURNAL]:
            copied.append("part of the log")
            raise OSError(errno.ESTALE, "Stale file handle")
        original(source, *more)
        copied.append(source.name)
        if len(copied) == 1:
            writing.close()
            assert not (run.folder / f"{JOURNAL}-wal").exists()

    monkeypatch.setattr(private_copy, "_copy", copy)
    if read == "reader":
        with JournalReader.open(run.folder) as journal:
            assert journal.events()[-1]["kind"] == "note"
            assert journal.query("PRAGMA quick_check") == [("ok",)]
    else:
        watched = RunMonitor(run.folder)
        watched.refresh()
        assert watched.events[-1]["kind"] == "note"
    assert copied == [JOURNAL, *(["part of the log"] if is_open else []), JOURNAL]


def test_a_copy_that_never_succeeds_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: Any
) -> None:
    run = feature_run(tmp_path, 30)
    mounted("nfs4")
    (run.folder / f"{JOURNAL}-wal").write_bytes(b"x" * 64)
    headers = iter(range(1000))
    monkeypatch.setattr(private_copy, "_header", lambda path: str(next(headers)).encode())
    monkeypatch.setattr(private_copy, "PAUSE", 0.0)
    with pytest.raises(JournalError, match="changes faster than it can be copied"):
        JournalReader.open(run.folder)


def test_a_run_that_begins_to_write_during_a_read_is_noticed(tmp_path: Path, mounted: Any) -> None:
    run = feature_run(tmp_path, 30)
    mounted("nfs4")
    os.utime(run.folder / JOURNAL, (1e9, 1e9))
    with JournalReader.open(run.folder) as journal:
        assert journal.told_counts()
    with (  # noqa: PT012
        pytest.raises(ChangedJournalError, match="changed while it was being read; try again"),
        JournalReader.open(run.folder),
    ):
        with Journal.open(run.folder) as writing:
            writing.event("note")
        raise JournalError("a page seems to be corrupt")


def test_a_monitor_reads_again_after_such_a_change(
    tmp_path: Path, mounted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = feature_run(tmp_path, 30)
    mounted("nfs4")
    os.utime(run.folder / JOURNAL, (1e9, 1e9))
    original = RunMonitor._read
    changes = iter([True])

    def changing(self: RunMonitor, journal: JournalReader) -> None:
        original(self, journal)
        if next(changes, False):
            with Journal.open(run.folder) as writing:
                writing.event("note")
            os.utime(run.folder / JOURNAL, (2e9, 2e9))

    monkeypatch.setattr(RunMonitor, "_read", changing)
    watched = RunMonitor(run.folder)
    watched.refresh()
    assert watched.events[-1]["kind"] == "note"
    assert watched.samples == 30
    assert monitor.NETWORK_PAUSE > 0


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A run folder with a write-ahead log that a killed process has left."""
    run = feature_run(tmp_path, 30)
    writer = sqlite3.connect(run.folder / JOURNAL, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO events (at, kind, detail) VALUES (0, 'note', '{}')")
    copy = tmp_path / "media" / "run"
    shutil.copytree(run.folder, copy, ignore=lambda *_: [f"{JOURNAL}-shm"])
    writer.close()
    return copy


def test_a_log_in_a_read_only_folder_is_read(killed: Path) -> None:
    if os.geteuid() == 0:
        with read_only_mount(killed) as shown:
            check_killed(shown)
    else:
        killed.chmod(0o555)
        try:
            check_killed(killed)
        finally:
            killed.chmod(0o755)


def check_killed(folder: Path) -> None:
    before = sorted(os.listdir(folder))
    with JournalReader.open(folder) as journal:
        assert journal.events()[-1]["kind"] == "note"
    run = RunMonitor(folder)
    run.refresh()
    assert run.events[-1]["kind"] == "note"
    assert sorted(os.listdir(folder)) == before


class read_only_mount:
    """A read-only view of a folder; skips the test if the system does not allow it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._view = folder, folder.parent / "view"

    def __enter__(self) -> Path:
        self._view.mkdir()
        bind = ["mount", "--bind", str(self._folder), str(self._view)]
        again = ["mount", "-o", "remount,ro,bind", str(self._view)]
        for command in (bind, again):
            if subprocess.run(command, capture_output=True, check=False).returncode:
                self.__exit__()
                # Root ignores permissions, so only a mount is read-only for it. Other users take the
                # branch with chmod, which runs everywhere.
                pytest.skip("root needs a bind mount for this, and this system does not allow it")
        return self._view

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", str(self._view)], capture_output=True, check=False)
