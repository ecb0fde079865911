"""What the dashboard reads, shows and does, over real HTTP."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.dashboard.actions import Actions
from genmix.dashboard.page_data import (
    MAX_POINTS,
    comparison_data,
    list_entry,
    run_data,
    thinned,
)
from genmix.dashboard.runs_folder import RunsFolder
from genmix.dashboard.status import status_of
from genmix.journal.journal import Journal
from genmix.journal.lock import FolderLock, Holder, holder, mark_stopping
from genmix.journal.reader import JournalReader
from genmix.monitoring.finding import read_inside
from genmix.monitoring.monitor import MAX_TEXT, RunMonitor, TimelinePoint
from tests.support import web
from tests.support.dashboard_runs import HOSTILE, write_long_journal, write_study
from tests.support.dashboard_server import serving, wait_until


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs, one of them in a folder of its own."""
    root = tmp_path_factory.mktemp("dashboard")
    study = write_study(root / "study", samples=60)
    for name in ("one", "more/two"):
        gx.run(study, root / "runs" / name)
    return root / "runs"


@pytest.fixture(scope="module")
def url(runs: Path) -> Iterator[str]:
    with serving(runs) as address:
        yield address


def embedded(page: str) -> Any:
    """The data of a page, as its script reads it."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def start(study: Path, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "genmix", "run", str(study), "-o", str(folder), "-q"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# -- what it shows -----------------------------------------------------------------------------------


def test_the_list_has_every_run(url: str) -> None:
    found = embedded(web.get(url).text)["runs"]
    assert {run["name"] for run in found} == {"one", "more/two"}
    assert web.get(f"{url}/runs").json()["runs"] == found
    for run in found:
        assert run["status"]["name"] == "finished"
        assert run["samples"] == 60
        assert len(run["sparkline"]) > 10
        assert sum(w["weight"] for w in run["weights"]) == pytest.approx(1)


def test_the_page_of_a_run_says_what_its_summary_says(url: str, runs: Path) -> None:
    def is_added_up() -> bool:
        return web.get(f"{url}/state/one").json()["cost"] is not None

    wait_until(is_added_up)
    state = embedded(web.get(f"{url}/run/one").text)
    summary = json.loads((runs / "one" / "summary.json").read_text())
    assert state["status"]["name"] == "finished"
    assert state["status"]["reason"] == summary["reason"]
    assert {arm["name"]: arm["count"] for arm in state["arms"]} == summary["counts"]
    assert {a["name"]: a["weight"] for a in state["arms"] if a["weight"] is not None} == (
        pytest.approx(summary["weights"])
    )
    assert state["cost"] == pytest.approx(summary["cost"])
    assert state["failure_count"] == sum(summary["failures"].values())
    assert state["seconds"] == pytest.approx(summary["seconds"], abs=1.0)
    assert state["scores"][0]["pooled"] == pytest.approx(summary["pooled_score"]["vendi"]["value"])
    assert state["chart"]["x"][-1] == 60
    assert state["chart"]["kind"] == "weight"
    assert len(state["newest"]) == 12


def test_hostile_texts_cannot_leave_the_block_of_data(url: str) -> None:
    page = web.get(f"{url}/run/one").text
    texts = [sample["text"] for sample in embedded(page)["newest"]]
    assert set(texts) & set(HOSTILE)
    assert "pwned" in page
    assert "<script>window" not in page
    assert not re.search(r"<(img|svg|iframe)[^>]*(onerror|onload|192\.0\.2)", page)
    assert page.count("<script") == 2 == page.count("</script>")


def test_comparing(url: str) -> None:
    answer = web.get(f"{url}/compare", params={"run": ["one", "more/two", "one", "none"]})
    found = embedded(answer.text)
    assert [run["name"] for run in found["runs"]] == ["one", "more/two"]
    assert set(found["colors"]) == {"left", "right", "<i>odd</i>", "flaky"}
    assert all(run["chart"]["pooled"]["vendi"][-1] for run in found["runs"])
    assert web.get(f"{url}/curves?run=one").json()["runs"][0]["name"] == "one"


def test_a_run_that_is_not_there(url: str) -> None:
    for path in ("run/none", "state/none", "events/none", "image/1/none", "image/1/one"):
        assert web.get(f"{url}/{path}").status_code == 404
    page = web.get(f"{url}/run/<b>", headers={"accept": "text/html"})
    assert page.status_code == 404
    assert "This run does not exist." in page.text


def test_a_single_run_can_be_shown_by_itself(runs: Path) -> None:
    with serving(runs / "one") as address:
        [run] = web.get(f"{address}/runs").json()["runs"]
        assert run["name"] == "."
        assert embedded(web.get(f"{address}/run/").text)["samples"] == 60


def test_images_are_shown_and_only_images(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "pictures"
    write_long_journal(folder, 5, dimension=2)
    images = folder / "images"
    images.mkdir()
    png = b"\x89PNG\r\n\x1a\n and so on"
    (images / "00000000.png").write_bytes(png)
    (images / "00000001.png").write_bytes(b"<html>")
    secret = tmp_path / "secret.png"
    secret.write_bytes(png)
    (images / "00000002.png").symlink_to(secret)
    names = ["00000000.png", "00000001.png", "00000002.png", "../../../secret.png", str(secret)]
    with sqlite3.connect(folder / "journal.sqlite") as database:
        for ticket, name in enumerate(names):
            database.execute("UPDATE samples SET image = ? WHERE ticket = ?", (name, ticket))
    with serving(tmp_path / "runs") as address:
        answers = [web.get(f"{address}/image/{i}/pictures") for i in range(5)]
    assert [answer.status_code for answer in answers] == [200, 404, 404, 404, 404]
    assert answers[0].content == png
    assert answers[0].headers["content-type"] == "image/png"


def test_a_report_is_a_strangers_page(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "a", 5, dimension=2)
    with serving(tmp_path) as address:
        assert not web.get(f"{address}/state/a").json()["report"]
        assert web.get(f"{address}/report/a").status_code == 404
        (tmp_path / "a" / "report.html").write_text("<h1>Report</h1>")
        assert web.get(f"{address}/state/a").json()["report"]
        answer = web.get(f"{address}/report/a")
    assert answer.text == "<h1>Report</h1>"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox ")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy


# -- following a journal -----------------------------------------------------------------------------


def facts(run: RunMonitor) -> dict[str, Any]:
    state = run_data("x", run, Actions())
    timed = {"cost", "seconds", "rate", "time_left", "status"}
    return {k: v for k, v in state.items() if k not in timed}


def test_reading_what_is_new_gives_what_reading_all_gives(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", samples=80)
    monitors: list[RunMonitor] = []
    seen = []

    def compare(live: Any) -> None:
        if not monitors:
            monitors.append(RunMonitor(tmp_path / "run"))
        monitors[0].refresh()
        if live.told % 7 == 0:
            fresh = RunMonitor(tmp_path / "run")
            assert facts(monitors[0]) == facts(fresh)
            assert dict(monitors[0].counts) == {
                arm: n for arm, n in live.selector.counts.items() if n
            }
            seen.append(live.told)

    summary = gx.run(study, tmp_path / "run", callbacks=[compare]).summary
    assert len(set(seen)) > 8
    monitors[0].refresh()
    wait_until(lambda: monitors[0].cost is not None)
    assert monitors[0].cost == pytest.approx(summary["cost"])
    assert facts(monitors[0]) == facts(RunMonitor(tmp_path / "run"))


def test_a_journal_without_a_timeline_shows_shares(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "old", 1000, dimension=2, timeline=False)
    state = run_data("old", RunMonitor(tmp_path / "old"), Actions())
    chart = state["chart"]
    assert chart["kind"] == "share"
    assert chart["x"][-1] == 1000
    assert len(chart["x"]) <= MAX_POINTS
    for i in range(len(chart["x"])):
        assert sum(values[i] or 0 for values in chart["weights"].values()) == pytest.approx(1)
    for arm in state["arms"]:
        assert chart["weights"][arm["name"]][-1] == pytest.approx(arm["count"] / 1000)
        assert arm["weight"] is None


def test_curves_are_thinned_out_and_keep_their_ends() -> None:
    points = [TimelinePoint(i, {}) for i in range(1, 5001)]
    few = thinned(points, 300)
    assert 150 < len(few) <= 300
    assert (few[0], few[-1]) == (points[0], points[-1])
    assert thinned(points[:300], 300) == points[:300]
    assert thinned([], 300) == []


def test_an_unchanged_journal_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_long_journal(tmp_path / "run", 100, dimension=2)
    run, opened = RunMonitor(tmp_path / "run"), count_openings(monkeypatch)
    time.sleep(0.1)  # a write just now could be followed by another with the same time
    first = run_data("run", run, Actions())
    wait_until(lambda: run.cost is not None)  # summed once, in the background
    assert opened
    opened.clear()
    again = run_data("run", run, Actions())
    assert first | {"cost": again["cost"]} == again
    list_entry("run", run, Actions())
    comparison_data({"run": run}, Actions())
    assert opened == []
    with Journal.open(tmp_path / "run") as journal:
        journal.event("start")
    assert len(run_data("run", run, Actions())["events"]) == len(first["events"]) + 1
    assert opened


def count_openings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of the journals that the dashboard opens from now on."""
    opened, open_journal = [], JournalReader.open_limited

    def counted(folder: Path, limit: Any) -> JournalReader:
        opened.append(folder)
        return open_journal(folder, limit)

    monkeypatch.setattr(JournalReader, "open_limited", counted)
    return opened


def test_a_corrupt_journal_is_not_read_again_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "journal.sqlite").write_bytes(b"not a database" * 100)
    run, opened = RunMonitor(folder), count_openings(monkeypatch)
    time.sleep(0.1)
    for _ in range(3):
        with pytest.raises(gx.StorageError, match="is not a journal"):
            run.refresh()
    assert len(opened) == 1


def test_another_run_in_the_same_folder_is_noticed(tmp_path: Path) -> None:
    folder = RunsFolder(tmp_path)
    write_long_journal(tmp_path / "a", 50, dimension=2)
    first = folder.find("a")
    assert first is not None
    first.refresh()
    assert first.samples == 50
    (tmp_path / "a").rename(tmp_path / "kept")
    write_long_journal(tmp_path / "a", 20, dimension=2)
    time.sleep(1.1)  # a list is good for a second
    second = folder.find("a")
    assert second is not None
    second.refresh()
    assert second.samples == 20


def test_another_run_in_the_same_inode_is_noticed(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "old", 50, dimension=2)
    write_long_journal(tmp_path / "new", 20, dimension=2)
    journal = tmp_path / "old" / "journal.sqlite"
    run = RunMonitor(tmp_path / "old")
    run.refresh()
    inode = journal.stat().st_ino
    journal.write_bytes((tmp_path / "new" / "journal.sqlite").read_bytes())
    assert journal.stat().st_ino == inode
    assert facts(run) == facts(RunMonitor(tmp_path / "new"))
    assert run.samples == 20


def test_a_journal_damaged_inside_is_told_in_words(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "run", 300, dimension=64)
    journal = tmp_path / "run" / "journal.sqlite"
    content = journal.read_bytes()
    with serving(tmp_path) as address:
        image = f"{address}/image/{10**22}/run"
        assert web.get(image).status_code == 409
        journal.write_bytes(content[: 3 * 4096] + b"\xa5" * (len(content) - 3 * 4096))
        answer = web.get(f"{address}/state/run")
        assert answer.status_code == 409
        assert "is corrupt (" in answer.json()["error"]
        with web.stream("GET", f"{address}/events/run", timeout=60) as stream:
            told = events_of(stream.iter_lines())
            assert [next(told)[0] for _ in range(2)] == ["trouble", "trouble"]


def test_a_damaged_journal_does_not_hide_the_others(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "good", 5, dimension=2)
    for name, content in (("torn", b"SQLite format 3\0 not really"), ("empty", b"")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "journal.sqlite").write_bytes(content)
    with serving(tmp_path) as address:
        found = {run["name"]: run for run in web.get(f"{address}/runs").json()["runs"]}
        assert found["good"]["status"]["name"] == "unfinished"
        assert found["torn"]["status"]["name"] == found["empty"]["status"]["name"] == "unreadable"
        assert web.get(f"{address}/run/torn").status_code == 409
        curves = web.get(f"{address}/curves?run=torn&run=good").json()["runs"]
        assert [curve["status"]["name"] for curve in curves] == ["unreadable", "unfinished"]


def test_a_hundred_runs(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "run 0", 300, dimension=2)
    content = (tmp_path / "run 0" / "journal.sqlite").read_bytes()
    for i in range(1, 100):
        (tmp_path / f"run {i}").mkdir()
        (tmp_path / f"run {i}" / "journal.sqlite").write_bytes(content)
    with serving(tmp_path) as address:
        found = web.get(f"{address}/runs", timeout=60).json()["runs"]
        assert {run["samples"] for run in found} == {300}
        assert len({run["name"] for run in found}) == 100


@pytest.mark.drill
def test_a_run_of_a_hundred_thousand_samples_answers_within_200_ms(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "long", 100_000)
    first, later = [], []
    for _ in range(5):
        with serving(tmp_path) as address, web.Client() as browser:
            browser.get(f"{address}/static/run.js")  # all is warm, the run was never looked at
            for times in (first, later):
                begin = time.perf_counter()
                page = browser.get(f"{address}/run/long").text
                times.append(time.perf_counter() - begin)
            assert len(embedded(page)["chart"]["x"]) <= MAX_POINTS
    print(f"first answer {1e3 * min(first):.0f} ms, then {1e3 * min(later):.0f} ms")
    assert min(first) < 0.2
    assert min(later) < 0.2


def test_time_is_added_up_over_sessions_as_the_journal_does(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "run", 100, dimension=2)  # 10 seconds, then it was killed
    with sqlite3.connect(tmp_path / "run" / "journal.sqlite") as database:
        database.execute("DELETE FROM meta WHERE key = 'seconds'")  # as runs once were
        [(last,)] = database.execute("SELECT max(ended_at) FROM tickets").fetchall()
        for at, kind in ((last + 1000, "start"), (last + 1003, "interrupted")):
            database.execute(
                "INSERT INTO events (at, kind, detail) VALUES (?, ?, '{}')", (at, kind)
            )
    run = RunMonitor(tmp_path / "run")
    run.refresh()
    journal = JournalReader.open(tmp_path / "run")
    assert run.seconds(is_running=False) == pytest.approx(journal.running_time())
    assert 12.5 < journal.running_time() < 13.5
    journal.close()


def test_time_that_was_written_down_is_taken(tmp_path: Path) -> None:
    """The running time comes from the clock of the sessions; the wall clock runs while a laptop sleeps."""
    write_long_journal(tmp_path / "run", 100, dimension=2)
    journal = Journal.open(tmp_path / "run")
    journal.set_meta("seconds", 4.5)
    run = RunMonitor(tmp_path / "run")
    run.refresh()
    assert run.seconds(is_running=False) == journal.running_time() == 4.5
    assert run.seconds(is_running=True) > 4.5
    journal.close()


# -- who holds a run ---------------------------------------------------------------------------------


def test_the_holder_of_a_lock(tmp_path: Path) -> None:
    assert holder(tmp_path) is None
    with FolderLock(tmp_path):
        assert holder(tmp_path) == Holder(os.getpid())
    assert holder(tmp_path) is None
    for content in ("", "garbage", "0", "1", "-1", "99999999999999999999", str(2**22 - 1)):
        (tmp_path / "lock").write_text(content)
        assert holder(tmp_path) is None
    (tmp_path / "lock").rename(tmp_path / "elsewhere")
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    assert holder(tmp_path) is None


def test_the_lock_names_nobody_when_it_is_free(tmp_path: Path) -> None:
    with FolderLock(tmp_path):
        assert (tmp_path / "lock").read_text().split()[0] == str(os.getpid())
    assert (tmp_path / "lock").read_text() == ""


def test_the_holder_is_the_one_that_kept_the_lock_from_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another takes the lock between our looks at it: the session before is not the one to stop."""
    from genmix.journal import lock

    (tmp_path / "lock").write_text(f"{os.getppid()} {lock.place()}\n")

    def flock(file: int, how: int) -> None:
        (tmp_path / "lock").write_text(f"{os.getpid()} {lock.place()}\n")
        raise BlockingIOError

    monkeypatch.setattr(lock.fcntl, "flock", flock)
    assert holder(tmp_path) == Holder(os.getpid())


@pytest.mark.parametrize(
    "words", ["", "0 {here}", "x {here}", "{gone} {here}", "{mine}", "{mine} a/b"]
)
def test_a_holder_that_cannot_be_seen_from_here_is_not_signalled(
    tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number means nothing here, on another machine or in another container: or somebody else."""
    from genmix.journal import lock

    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with FolderLock(tmp_path):
        told = words.format(here=lock.place(), gone=gone.pid, mine=os.getpid())
        (tmp_path / "lock").write_text(told)
        kill = os.kill
        monkeypatch.setattr(os, "kill", lambda p, n: pytest.fail("signalled") if n else kill(p, n))
        assert holder(tmp_path) == Holder(None)
        with pytest.raises(gx.InputError, match="another machine or in another container"):
            Actions().stop(tmp_path)
        with pytest.raises(gx.InputError, match="in use by a process on another machine"):
            FolderLock(tmp_path).__enter__()


def test_a_forked_child_does_not_hold_its_parents_lock(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys, time; from genmix.journal.lock import FolderLock\n"
        "FolderLock(pathlib.Path(sys.argv[1])).__enter__()\n"
        "os.fork() or time.sleep(60)\n"
        "print(os.getpid(), flush=True); time.sleep(60)"
    )
    run = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert run.stdout is not None
        assert int(run.stdout.readline()) == run.pid
        assert holder(tmp_path) == Holder(run.pid)
        run.kill()
        run.wait()
        with FolderLock(tmp_path):
            pass
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def test_a_lock_on_a_full_disk_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(gx.StorageError, match=r"No space left on device\); check"):
            FolderLock(tmp_path).__enter__()
    with FolderLock(tmp_path):
        assert holder(tmp_path) == Holder(os.getpid())


def test_a_run_says_itself_that_it_stops(tmp_path: Path) -> None:
    """After Ctrl-C in a terminal, the button of a page must not be the second one."""
    with FolderLock(tmp_path):
        mark_stopping(tmp_path)
        assert holder(tmp_path) == Holder(os.getpid(), is_stopping=True)
        with pytest.raises(gx.InputError, match="is already stopping"):
            Actions().stop(tmp_path)
    with FolderLock(tmp_path):
        assert holder(tmp_path) == Holder(os.getpid())


def test_a_slow_look_at_a_lock_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("")
    with open(tmp_path / "lock") as looked_at:
        fcntl.flock(looked_at, fcntl.LOCK_SH)
        done = threading.Timer(0.3, fcntl.flock, args=(looked_at, fcntl.LOCK_UN))
        done.start()
        with FolderLock(tmp_path):
            assert holder(tmp_path) == Holder(os.getpid())
        done.join()


def test_looking_at_a_lock_keeps_nobody_from_taking_it(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(f"{os.getpid()}\n")
    code = (
        "import sys, pathlib; from genmix.journal.lock import holder\n"
        "while True: holder(pathlib.Path(sys.argv[1]))"
    )
    watcher = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    try:
        for _ in range(100):
            with FolderLock(tmp_path):
                pass
    finally:
        watcher.kill()
        watcher.wait()


def test_the_status_of_a_run(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "run", 10, dimension=2)
    run, actions = RunMonitor(tmp_path / "run"), Actions()

    def happens(kind: str, at: float) -> None:
        with sqlite3.connect(tmp_path / "run" / "journal.sqlite") as database:
            database.execute(
                "INSERT INTO events (at, kind, detail) VALUES (?, ?, ?)",
                (at, kind, '{"why": "because"}'),
            )

    def status() -> str:
        run.refresh()
        return status_of(run, actions).name

    assert status() == "unfinished"
    with FolderLock(tmp_path / "run"):
        assert status() == "running"
        happens("interrupted", time.time() + 5)
        assert status() == "ending"
    assert status() == "interrupted"
    os.utime(tmp_path / "run" / "lock", (0, 0))
    with FolderLock(tmp_path / "run"):
        os.utime(tmp_path / "run" / "lock", (time.time() + 10,) * 2)
        assert status() == "starting"
    happens("trouble", time.time() + 20)
    assert status() == "trouble"
    assert run_data("run", run, actions)["status"]["can_resume"]
    happens("finished", time.time() + 30)
    assert status() == "finished"
    assert not run_data("run", run, actions)["status"]["can_resume"]
    assert list_entry("run", run, actions)["status"]["reason"] == "because"
    assert comparison_data({"run": run}, actions)["runs"][0]["status"]["name"] == "finished"


def test_a_resumed_run_that_writes_its_report_is_ending(tmp_path: Path) -> None:
    """Its lock is free by then, and it was started from here: it is not about to begin."""
    write_long_journal(tmp_path / "run", 10, dimension=2)
    run, actions = RunMonitor(tmp_path / "run"), Actions()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        actions._started[tmp_path / "run"] = process
        actions._started_at[tmp_path / "run"] = time.time()
        run.refresh()
        assert status_of(run, actions).name == "starting"
        with sqlite3.connect(tmp_path / "run" / "journal.sqlite") as database:
            database.execute(
                "INSERT INTO events (at, kind, detail) VALUES (?, 'interrupted', ?)",
                (time.time() + 5, '{"why": "interrupted"}'),
            )
        run.refresh()
        assert status_of(run, actions).name == "ending"
        process.communicate(b"\n")
    found = status_of(run, actions)
    assert (found.name, found.reason) == ("interrupted", None)
    assert run_data("run", run, actions)["events"][0]["why"] is None


def test_a_report_of_before_says_so(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "run", 10, dimension=2)
    run, report = RunMonitor(tmp_path / "run"), tmp_path / "run" / "report.html"
    assert not run_data("run", run, Actions())["report"]
    report.write_text("new")
    os.utime(report, (time.time() + 1000,) * 2)
    found = run_data("run", run, Actions())
    assert (found["report"], found["report_is_old"]) == (True, False)
    os.utime(report, (1, 1))
    assert run_data("run", run, Actions())["report_is_old"]


def test_what_looks_like_a_secret_is_not_shown(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "run", 3, dimension=2)
    secret = "Authorization: Bearer abcdef0123456789abcd"
    with sqlite3.connect(tmp_path / "run" / "journal.sqlite") as database:
        database.execute(
            "INSERT INTO failures (ticket, arm, at, stage, message) VALUES (0, 'arm 0', 0, 'generate', ?)",
            (f"dead\n{secret}\n" + "x" * 100_000,),
        )
        for kind in ("retire", "trouble"):
            database.execute(
                "INSERT INTO events (at, kind, arm, detail) VALUES (9e9, ?, 'arm 0', ?)",
                (kind, json.dumps({"why": secret})),
            )
        database.execute("UPDATE samples SET prompt = ?", ("y" * 100_000,))
    state = run_data("run", RunMonitor(tmp_path / "run"), Actions())
    assert "abcdef0123" not in json.dumps(state)
    assert state["failures"][0]["message"].startswith("dead\n(hidden")
    assert len(state["failures"][0]["message"]) == len(state["newest"][0]["prompt"]) == MAX_TEXT
    assert state["status"]["name"] == "trouble"
    assert state["status"]["reason"].startswith("(hidden")


def test_the_log_of_a_resumed_run_keeps_its_secrets(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "run", 3, dimension=2)
    actions = Actions()
    ended = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    ended.wait()
    actions._started[tmp_path / "run"] = ended
    (tmp_path / "run" / "resume.log").write_text("refused: api_key=abcdef0123456789abcd\n")
    actions._started_at[tmp_path / "run"] = 1000.0
    hidden = "genmix resume exited with code 1: (hidden: this line looks like a secret)"
    before = {"at": 999.0, "detail": {"pid": 1}}
    own = {"at": 1001.0, "detail": {"pid": ended.pid}}
    for begun in (None, before, own):
        assert actions.resume_problem(tmp_path / "run", begun) == hidden
    others = {"at": 1001.0, "detail": {"pid": ended.pid + 1}}
    assert (
        actions.resume_problem(tmp_path / "run", others) is None
    )  # another process has resumed it since


# -- live --------------------------------------------------------------------------------------------


def events_of(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    kind = ""
    for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


def test_events_follow_a_run_of_another_process_to_its_end(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", samples=60, wait=0.02)
    process = start(study, tmp_path / "runs" / "live")
    try:
        (tmp_path / "runs").mkdir(exist_ok=True)
        wait_until(lambda: (tmp_path / "runs" / "live" / "journal.sqlite").exists())
        with (
            serving(tmp_path / "runs") as address,
            web.stream("GET", f"{address}/events/live", timeout=60) as stream,
        ):
            assert stream.headers["content-type"].startswith("text/event-stream")
            whole: dict[str, Any] = {}
            samples = []
            for kind, news in events_of(stream.iter_lines()):
                assert kind == "state"
                assert all(key not in whole or whole[key] != news[key] for key in news)
                whole |= news
                samples.append(whole["samples"])
                if whole["status"]["name"] == "finished":
                    break
    finally:
        process.wait(30)
    assert samples == sorted(samples)
    assert len(set(samples)) > 3
    assert whole["samples"] == 60
    assert whole["failure_count"] > 0
    assert "<b>no</b> luck" in whole["failures"][0]["message"]
    assert httpx.codes.is_success(stream.status_code)


def test_the_stream_says_when_the_run_is_gone(tmp_path: Path) -> None:
    write_long_journal(tmp_path / "run", 10, dimension=2)
    with (
        serving(tmp_path) as address,
        web.stream("GET", f"{address}/events/run", timeout=60) as stream,
    ):
        told = events_of(stream.iter_lines())
        assert next(told)[0] == "state"
        (tmp_path / "run").rename(tmp_path / ".gone")
        assert list(told)[-1] == ("gone", {})


# -- stop and resume ---------------------------------------------------------------------------------


def from_page(url: str) -> dict[str, str]:
    return {"origin": url, "sec-fetch-site": "same-origin"}


def test_stop_and_resume(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", samples=120, wait=0.03)
    process = start(study, tmp_path / "runs" / "a run")
    folder = tmp_path / "runs" / "a run"
    folder.parent.mkdir(exist_ok=True)
    with serving(tmp_path / "runs") as url:

        def state() -> Any:
            return web.get(f"{url}/state/a run").json()

        def post(action: str) -> httpx.Response:
            return web.post(f"{url}/{action}/a run", headers=from_page(url))

        wait_until(lambda: (folder / "journal.sqlite").exists() and state()["samples"] > 5)
        assert state()["status"]["can_stop"]
        assert state()["rate"] > 0
        assert state()["time_left"] > 0
        assert post("resume").status_code == 409
        assert post("stop").status_code == 200
        assert process.wait(30) == 130
        wait_until(lambda: state()["status"]["name"] == "interrupted")
        stopped = state()["samples"]
        assert 5 < stopped < 120
        assert post("stop").json()["error"].startswith("The run is not running")
        assert post("resume").json()["name"] == "starting"
        assert post("resume").status_code == 409
        wait_until(lambda: state()["samples"] > stopped)
        assert not state()["status"]["can_resume"]
        wait_until(lambda: state()["status"]["name"] == "finished")
        assert state()["samples"] == 120
        assert "samples are saved in" in (folder / "resume.log").read_text()
        assert post("resume").json()["error"] == "The run is finished; there is nothing to resume."


def current(folder: Path) -> Holder:
    found = holder(folder)
    assert found is not None
    return found


def test_a_run_that_begins_to_stop_while_its_lock_is_read_is_stopping(tmp_path: Path) -> None:
    actions = Actions()
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with FolderLock(tmp_path):
            actions.stop(tmp_path)
            read = current(tmp_path)  # not marked yet
            time.sleep(0.05)  # the file system's clock has a tick
            mark_stopping(tmp_path)
            assert not read.is_stopping
            assert actions.is_stopping(tmp_path, read)
            assert actions.is_stopping(tmp_path, current(tmp_path))
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_new_session_of_the_same_process_is_not_stopping(tmp_path: Path) -> None:
    actions, heard = Actions(), []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        for _ in range(2):
            with FolderLock(tmp_path):
                assert not actions.is_stopping(tmp_path, current(tmp_path))
                actions.stop(tmp_path)
                assert actions.is_stopping(tmp_path, current(tmp_path))
                with pytest.raises(gx.InputError, match="is already stopping"):
                    actions.stop(tmp_path)
            time.sleep(0.05)  # the file system's clock has a tick
        wait_until(lambda: len(heard) == 2)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_stop_stops_at_once(tmp_path: Path) -> None:
    arms = write_study(tmp_path / "study", samples=50, wait=30.0)
    folder = tmp_path / "runs" / "slow"
    folder.parent.mkdir()
    process = start(arms, folder)
    with serving(tmp_path / "runs") as url:

        def state() -> Any:
            return web.get(f"{url}/state/slow").json()

        wait_until(lambda: (folder / "journal.sqlite").exists() and state()["status"]["can_stop"])
        address = f"{url}/stop/slow"
        assert web.post(f"{address}?now", headers=from_page(url)).status_code == 409
        assert web.post(address, headers=from_page(url)).json()["name"] == "stopping"
        assert web.post(address, headers=from_page(url)).status_code == 409
        assert state()["status"]["can_stop_now"]
        assert web.post(f"{address}?now", headers=from_page(url)).status_code == 200
        assert process.wait(20) == 130
        wait_until(lambda: state()["status"]["name"] == "unfinished")


def test_a_run_that_cannot_be_resumed_says_why(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", samples=200, wait=0.02)
    folder = tmp_path / "runs" / "a"
    process = start(study, folder)
    (tmp_path / "runs").mkdir(exist_ok=True)
    wait_until(lambda: (folder / "lock").exists() and (folder / "journal.sqlite").exists())
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.wait(30)
    (tmp_path / "study" / "dashboard_arms.py").unlink()
    with serving(tmp_path / "runs") as url:
        assert web.post(f"{url}/resume/a", headers=from_page(url)).status_code == 200

        def state() -> Any:
            return web.get(f"{url}/state/a").json()

        wait_until(lambda: state()["status"]["name"] == "trouble")
        assert "genmix resume exited with code 2" in state()["status"]["reason"]
        assert "dashboard_arms" in state()["status"]["reason"]
        assert state()["status"]["can_resume"]


# -- security ----------------------------------------------------------------------------------------


def test_every_answer_carries_a_strict_policy(url: str) -> None:
    for path in ("", "runs", "run/one", "compare", "static/run.js", "run/none", "state/one"):
        headers = web.get(f"{url}/{path}").headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
    page = web.get(url).text
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"\s(on\w+|style)=", markup)


@pytest.mark.parametrize(
    "host, status",
    [
        ("127.0.0.1:9", 200),
        ("localhost", 200),
        ("LOCALHOST:1234", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("evil.example:8765", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1:1/static/?", 421),
        ("[::1]/static/?", 421),
        ("[::1]/static/x#", 421),
        ("127.0.0.1:1/static/..?", 421),
        ("localhost:", 421),
        ("", 421),
    ],
)
def test_only_our_own_names_are_answered(url: str, host: str, status: int) -> None:
    assert web.get(f"{url}/runs", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "headers, status",
    [
        ({}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"origin": "{url}", "sec-fetch-site": "cross-site"}, 403),
        ({"origin": "{url}", "sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"authorization": "Bearer None"}, 403),
        ({"origin": "{url}"}, 409),
        ({"sec-fetch-site": "same-origin"}, 409),
    ],
)
def test_only_our_own_page_changes_something(
    url: str, headers: dict[str, str], status: int
) -> None:
    sent = {name: value.format(url=url) for name, value in headers.items()}
    assert web.post(f"{url}/stop/one", headers=sent).status_code == status
    assert web.get(f"{url}/stop/one", headers=sent).status_code == 405


TOKEN = "a token, hard to guess: äöü"


@pytest.fixture(scope="module")
def guarded(runs: Path) -> Iterator[str]:
    with serving(runs, token=TOKEN) as address:
        yield address


def test_without_the_token_nothing_is_shown(guarded: str) -> None:
    for path in ("", "runs", "run/one", "state/one", "events/one", "compare?run=one", "nowhere"):
        answer = web.get(f"{guarded}/{path}")
        assert answer.status_code == 401
        assert "vendi" not in answer.text
    page = web.get(guarded, headers={"accept": "text/html"})
    assert page.status_code == 401
    assert 'type="password"' in page.text
    assert web.get(f"{guarded}/static/style.css").status_code == 200
    for headers in ({}, from_page(guarded)):
        assert web.post(f"{guarded}/stop/one", headers=headers).status_code in (401, 403)


def test_the_token_opens_the_door_once_and_leaves_the_address(guarded: str) -> None:
    with web.Client() as browser:
        answer = browser.get(f"{guarded}/compare", params={"token": TOKEN, "run": "one"})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/compare?run=one"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert TOKEN not in cookie
        assert browser.get(f"{guarded}/runs").status_code == 200
        assert browser.post(f"{guarded}/stop/one", headers=from_page(guarded)).status_code == 409
        foreign = {"origin": "http://evil.example"}
        assert browser.post(f"{guarded}/stop/one", headers=foreign).status_code == 403
        assert browser.post(f"{guarded}/stop/one").status_code == 403
    for other in (TOKEN[:-1], TOKEN + "x", "", TOKEN.upper()):
        assert web.get(f"{guarded}/runs", params={"token": other}).status_code == 401
    name = cookie.partition("=")[0]
    for value in ("", "0" * 64, TOKEN.encode().hex()):
        headers = {"cookie": f"{name}={value}"}
        assert web.get(f"{guarded}/runs", headers=headers).status_code == 401


@pytest.mark.parametrize("other", ['x={"a":1}', "foo[bar]=1", "theme=a b", "k\xe9=1"])
def test_cookies_of_others_do_not_lock_one_out(guarded: str, other: str) -> None:
    answer = web.get(f"{guarded}/runs", params={"token": TOKEN})
    ours = answer.headers["set-cookie"].partition(";")[0]
    headers = {"cookie": f"{other}; {ours}".encode("latin-1")}
    assert web.get(f"{guarded}/runs", headers=headers).status_code == 200


def test_a_forged_host_opens_nothing(guarded: str) -> None:
    for host in ("127.0.0.1:1/static/?", "[::1]/static/?"):
        assert web.get(f"{guarded}/runs", headers={"host": host}).status_code == 421


def test_the_path_that_is_routed_by_counts(monkeypatch: pytest.MonkeyPatch, guarded: str) -> None:
    from starlette.datastructures import URL
    from starlette.requests import Request

    monkeypatch.setattr(Request, "url", URL("http://127.0.0.1/static/"))  # as a forged Host made it
    assert web.get(f"{guarded}/runs").status_code == 401
    answer = web.get(f"{guarded}/run/a%3Fb%20c", params={"token": TOKEN})
    assert answer.headers["location"] == "/run/a%3Fb%20c"


def test_a_program_sends_the_token_itself(guarded: str) -> None:
    headers = {"authorization": f"Bearer {TOKEN}".encode()}
    assert web.get(f"{guarded}/runs", headers=headers).status_code == 200
    with serving(Path.cwd(), token="plain") as address:
        headers = {"authorization": b"Bearer plain"}
        assert web.get(f"{address}/runs", headers=headers).status_code == 200
        assert web.post(f"{address}/stop/x", headers=headers).status_code == 404
        wrong = {"authorization": "Bearer plaim"}
        assert web.get(f"{address}/runs", headers=wrong).status_code == 401


def test_logging_in(guarded: str) -> None:
    with web.Client() as browser:
        address, headers = f"{guarded}/login", from_page(guarded)
        assert browser.post(address, data={"token": "no"}, headers=headers).status_code == 401
        assert browser.post(address, data={"token": TOKEN}).status_code == 403
        long = browser.post(address, data={"token": "x" * 10_000}, headers=headers)
        assert long.status_code == 413
        answer = browser.post(address, data={"token": TOKEN}, headers=headers)
        assert answer.status_code == 303
        assert browser.get(guarded).status_code == 200


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from genmix.dashboard import security

    seen: list[tuple[int, int]] = []

    def spy(one: bytes, other: bytes) -> bool:
        seen.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr(security.hmac, "compare_digest", spy)
    assert security.same("token", "token")
    assert not security.same("t", "token")
    assert seen == [(32, 32), (32, 32)]


@pytest.mark.parametrize(
    "path",
    [
        "run/../../etc/passwd",
        "run/%2e%2e/%2e%2e/etc/passwd",
        "run/..%2foutside",
        "state/..%2foutside",
        "state/%2fetc",
        "report/..%2foutside",
        "image/0/..%2foutside",
        "static/../app.py",
        "static/..%2fapp.py",
        "static/%2e%2e%2fapp.py",
        "state/linked",
        "state/half",
    ],
)
def test_nothing_outside_the_folder_can_be_reached(tmp_path: Path, path: str) -> None:
    write_long_journal(tmp_path / "outside", 3, dimension=2)
    (tmp_path / "outside" / "report.html").write_text("outside")
    write_long_journal(tmp_path / "runs" / "inside", 3, dimension=2)
    (tmp_path / "runs" / "linked").symlink_to(tmp_path / "outside")
    (tmp_path / "runs" / "half").mkdir()
    (tmp_path / "runs" / "half" / "journal.sqlite").symlink_to(
        tmp_path / "outside" / "journal.sqlite"
    )
    with serving(tmp_path / "runs") as url:
        assert [run["name"] for run in web.get(f"{url}/runs").json()["runs"]] == ["inside"]
        host, port = url.removeprefix("http://").split(":")
        answer = raw_get(host, int(port), path)  # as it is: httpx would tidy it up
    assert b" 404 " in answer.split(b"\r\n")[0] + b" "


def raw_get(host: str, port: int, path: str) -> bytes:
    import socket

    with socket.create_connection((host, port)) as connection:
        connection.sendall(
            f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
        )
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_files_are_read_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "run" / "images").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "run" / "images" / "a").write_text("fine")
    (tmp_path / "run" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "run" / "folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "run" / "pipe")
    run = tmp_path / "run"
    assert read_inside(run, "images", "a", max_bytes=100) == b"fine"
    assert read_inside(run, "images", "a", max_bytes=3) is None
    for parts in (("link",), ("folder", "secret"), ("..", "secret"), ("pipe",), ("images",), ("",)):
        assert read_inside(run, *parts, max_bytes=100) is None


# -- the command -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, words",
    [
        (["--host", "0.0.0.0"], "set a token"),
        (["--host", "::"], "set a token"),
        (["--host", "0.0.0.0", "--token", " "], "The token is empty"),
        (["--host", "192.0.2.1", "--token", "x" * 15], "fewer than 16 characters"),
        (["--host", "192.0.2.1", "--token", "x" * 16], "could not listen on"),
    ],
)
def test_what_the_command_refuses(tmp_path: Path, options: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["dashboard", str(tmp_path), *options])
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["dashboard", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "is not a folder" in result.stderr


def test_the_command_serves_until_ctrl_c(runs: Path) -> None:
    command = [sys.executable, "-m", "genmix", "dashboard", str(runs), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
    with web.stream("GET", f"{url}events/one", timeout=30) as stream:  # does not keep it alive
        assert next(events_of(stream.iter_lines()))[0] == "state"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_the_token_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENMIX_DASHBOARD_TOKEN", "x" * 16)
    result = CliRunner().invoke(app, ["dashboard", str(tmp_path), "--host", "192.0.2.1"])
    assert "could not listen on" in result.stderr


def test_the_button_after_a_ctrl_c_elsewhere_is_not_the_second_one(tmp_path: Path) -> None:
    """Eight calls that were paid for fly: a page that does not know of the first must not lose them."""
    study = write_study(tmp_path / "study", samples=50, wait=1.0)
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "genmix", "run", str(study), "--out", str(folder), "--quiet"]
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: (folder / "journal.sqlite").exists())
        monitor = RunMonitor(folder)
        wait_until(lambda: monitor.refresh() or bool(monitor.in_flight))
        run.send_signal(signal.SIGINT)
        wait_until(lambda: (held := holder(folder)) is None or held.is_stopping)
        with pytest.raises(gx.InputError, match=r"is already stopping|not running"):
            Actions().stop(folder)
        assert run.wait(60) == 130
    finally:
        run.kill()
        run.wait()
    assert gx.Run(folder).status == "interrupted"
