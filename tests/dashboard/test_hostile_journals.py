"""A hostile journal makes only its own run unreadable."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from genmix.dashboard.actions import Actions
from genmix.dashboard.page_data import list_entry
from genmix.journal.reader import JournalReader
from genmix.journal.schema import JournalError, Limit, SlowJournalError
from genmix.monitoring import monitor
from genmix.monitoring.monitor import RunMonitor
from tests.support.dashboard_runs import write_long_journal
from tests.support.dashboard_server import serving

GOOD_RUNS = 3


def sql(*statements: str) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        database = sqlite3.connect(folder / "journal.sqlite", isolation_level=None)
        for statement in statements:
            database.execute(statement)
        database.close()

    return attack


def content(data: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / "journal.sqlite").write_bytes(data) and None


def loose(table: str) -> tuple[str, ...]:
    """Replace a table by one that accepts values of any type."""
    return (
        "PRAGMA foreign_keys = OFF",
        f"CREATE TABLE copy AS SELECT * FROM {table}",
        f"DROP TABLE {table}",
        f"ALTER TABLE copy RENAME TO {table}",
    )


def study(value: str) -> Callable[[Path], None]:
    return sql(f"UPDATE meta SET value = '{value}' WHERE key = 'study'")


def btree_bomb(folder: Path) -> None:
    """Eight levels of a tree, each with many pointers to the one page below: an endless table."""
    path = folder / "journal.sqlite"
    page = 4096
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = DELETE")
    index = "SELECT name FROM sqlite_master WHERE tbl_name = 'tickets' AND type = 'index'"
    for (name,) in database.execute(index).fetchall():
        if not name.startswith("sqlite_autoindex"):
            database.execute(f"DROP INDEX {name}")
    root = "SELECT rootpage FROM sqlite_master WHERE name = ?"
    [(events,)] = database.execute(root, ("events",)).fetchall()
    database.close()
    data = bytearray(path.read_bytes())
    assert len(data) % page == 0

    def interior(child: int, cells: int) -> bytes:
        """A page of a table's tree whose children are all the same page."""
        found = bytearray(page)
        start = page - 5 * cells
        found[0] = 5
        found[3:5] = cells.to_bytes(2)
        found[5:7] = start.to_bytes(2)
        found[8:12] = child.to_bytes(4)
        for i in range(cells):
            at = start + 5 * i
            found[12 + 2 * i : 14 + 2 * i] = at.to_bytes(2)
            found[at : at + 4] = child.to_bytes(4)
            found[at + 4] = 1
        return bytes(found)

    leaf = len(data) // page + 1
    data += data[(events - 1) * page : events * page]  # what the table contains now
    for level in range(8):
        data += interior(leaf + level, 300)
    data[(events - 1) * page : events * page] = interior(leaf + 8, 300)
    data[28:32] = (len(data) // page).to_bytes(4)
    path.write_bytes(data)


DEEP = "[" * 100_000

HOSTILE: dict[str, Callable[[Path], None]] = {
    "an infinite time": sql("UPDATE tickets SET ended_at = 9e999"),
    "a time in the far future": sql("UPDATE events SET at = 1e300"),
    "a negative time": sql("UPDATE events SET at = -1"),
    "an endless view": sql(
        "ALTER TABLE events RENAME TO before",
        "CREATE VIEW events AS WITH RECURSIVE r (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM r)"
        " SELECT id, 0.0 AS at, 'start' AS kind, NULL AS arm, NULL AS step, '{}' AS detail FROM r",
    ),
    "an endless view of metadata": sql(
        "ALTER TABLE meta RENAME TO before",
        "CREATE VIEW meta AS WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
        " SELECT 'run' AS key, 'x' AS value FROM r",
    ),
    "a virtual table": sql(
        "ALTER TABLE events RENAME TO before", "CREATE VIRTUAL TABLE events USING fts5(id)"
    ),
    "a computed column": sql("ALTER TABLE meta ADD COLUMN more TEXT AS (hex(zeroblob(9)))"),
    "a trigger": sql("CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM tickets; END"),
    "an endless tree": btree_bomb,
    "a huge text": sql(
        "UPDATE samples SET text = replace(hex(zeroblob(10000000)), '00', 'ab')"
        " WHERE ticket = (SELECT max(ticket) FROM samples)"
    ),
    "a huge study": sql(
        "UPDATE meta SET value = replace(hex(zeroblob(10000000)), '00', '[]') WHERE key = 'study'"
    ),
    "bytes for names": sql(*loose("tickets"), "UPDATE tickets SET arm = x'ff00'"),
    "texts for times": sql(*loose("tickets"), "UPDATE tickets SET ended_at = 'noon'"),
    "text that is not UTF-8": sql(
        *loose("samples"), "UPDATE samples SET text = CAST(x'ff' AS TEXT)"
    ),
    "bytes for JSON": sql(*loose("meta"), "UPDATE meta SET value = x'00' WHERE key = 'study'"),
    "an infinite cost": sql("UPDATE samples SET cost = 9e999"),
    "an event that is a list": sql("UPDATE events SET detail = '[]'"),
    "an event that is not JSON": sql("UPDATE events SET detail = '{'"),
    "deep JSON": sql(f"UPDATE events SET detail = '{DEEP}'"),
    "weights that are texts": sql('UPDATE timeline SET weights = \'{"arm 0": "much"}\''),
    "a study that is a list": study("[1, 2]"),
    "a study without a value": study("null"),
    "first arms that are not names": sql("INSERT INTO meta VALUES ('arms', '[1]')"),
    "an infinite budget": study('{"arms": {}, "budget": {"samples": 1e999}}'),
    "a budget that is a text": study('{"arms": {}, "budget": "all"}'),
    "arms that are a number": study('{"arms": 3}'),
    "no tables": sql(*(f"DROP TABLE {t}" for t in ("samples", "failures", "events", "tickets"))),
    "no columns": sql("DROP TABLE events", "CREATE TABLE events (id INTEGER)"),
    "another format": sql("PRAGMA user_version = 77"),
    "not a database": content(b"not a database" * 1000),
    "an empty file": content(b""),
    "half a header": content(b"SQLite format 3\0" + bytes(50)),
}
"""Names are what the journal has."""

QUICK = tuple(HOSTILE)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good run of a few samples."""
    folder = tmp_path_factory.mktemp("template") / "run"
    write_long_journal(folder, 60, dimension=2)
    database = sqlite3.connect(folder / "journal.sqlite")
    database.execute("PRAGMA journal_mode = DELETE")
    database.close()
    return folder


def is_unreadable(entry: dict[str, Any]) -> bool:
    """Whether it is the entry of an unreadable run, with one sentence that says why."""
    reason = entry["status"]["reason"]
    assert "samples" not in entry
    return bool(entry["status"]["name"] == "unreadable" and reason and "\n" not in reason)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_journal_is_unreadable_and_says_why(
    template: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "LIST_SECONDS", 0.2)
    shutil.copytree(template, tmp_path / "run")
    HOSTILE[kind](tmp_path / "run")
    entry = list_entry("run", RunMonitor(tmp_path / "run"), Actions())
    assert is_unreadable(entry), entry
    reason = entry["status"]["reason"]
    assert reason.endswith("."), reason
    assert "Error" not in reason, reason


@pytest.mark.parametrize(
    "text", [DEEP, "[]", '{"score": 3}', '{"score": {"v": {"value": 1e999}}}', "{"]
)
def test_a_hostile_summary_is_ignored(template: Path, tmp_path: Path, text: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(template, folder)
    sql("DELETE FROM timeline", "UPDATE events SET kind = 'finished'")(folder)
    (folder / "summary.json").write_text(text)
    entry = list_entry("run", RunMonitor(folder), Actions())
    assert entry["samples"] == 60
    assert entry["score"] is None


def test_no_page_fails_because_of_hostile_runs(template: Path, tmp_path: Path) -> None:
    """Every page, with all kinds of hostile runs and a name that is not UTF-8 next to good runs."""
    for i in range(GOOD_RUNS):
        shutil.copytree(template, tmp_path / f"good {i}")
    for kind in QUICK:
        shutil.copytree(template, tmp_path / kind)
        HOSTILE[kind](tmp_path / kind)
    shutil.copytree(bytes(template), bytes(tmp_path) + b"/\xff\xfe")
    with serving(tmp_path) as url, httpx.Client(base_url=url, timeout=60, verify=False) as web:
        found = {run["name"]: run for run in web.get("/runs").json()["runs"]}
        assert len(found) == GOOD_RUNS + len(QUICK) + 1
        assert {found[f"good {i}"]["samples"] for i in range(GOOD_RUNS)} == {60}
        assert all("samples" not in found[kind] for kind in QUICK)
        assert web.get("/").status_code == 200
        for kind in QUICK:
            for page in ("run", "state"):
                answer = web.get(f"/{page}/{kind}")
                assert (answer.status_code, answer.json()["error"][-1]) == (409, ".")
            assert web.get(f"/image/0/{kind}").status_code in (404, 409)
        compared = web.get("/curves", params={"run": ["good 0", *QUICK[:11]]}).json()["runs"]
        assert [("chart" in run) for run in compared] == [True] + [False] * 11
        for page in ("/run/good 0", "/state/good 1", "/compare?run=good 0&run=an endless tree"):
            assert web.get(page).status_code == 200


def test_a_slow_journal_is_tried_longer_and_less_often(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, now, limits = tmp_path / "run", [0.0], list[float]()
    shutil.copytree(template, folder)

    def slow(opened: Path, limit: Limit) -> JournalReader:
        if opened == folder:  # another test's costs may still be summed in the background
            limits.append(limit.seconds)
        raise SlowJournalError("reading takes too long.")

    monkeypatch.setattr(JournalReader, "open_limited", slow)
    monkeypatch.setattr(monitor, "time", SimpleNamespace(monotonic=lambda: now[0]))
    run = RunMonitor(folder)
    for _ in range(120):
        with pytest.raises(JournalError, match="takes too long"):
            run.refresh(for_list=True)
        now[0] += 1.0
    assert limits == [0.5, 2.0, 8.0, 8.0]


def test_the_number_of_rows_is_limited(template: Path) -> None:
    with JournalReader.open_limited(template, Limit(60, 1_000_000, max_rows=60)) as journal:
        assert len(journal.told_times(1000)) == 60
    with (
        JournalReader.open_limited(template, Limit(60, 1_000_000, max_rows=59)) as journal,
        pytest.raises(JournalError, match=r"a table has more than 59 rows"),
    ):
        journal.told_times(1000)


def test_reading_stops_at_the_time_limit(template: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(template, folder)
    btree_bomb(folder)
    with (
        JournalReader.open_limited(folder, Limit(0.05, 1_000_000)) as journal,
        pytest.raises(SlowJournalError, match=r"takes too long; .*\.$"),
    ):
        journal.events()


@pytest.mark.parametrize("kind", ["an endless view", "a trigger", "a virtual table"])
def test_every_reader_refuses_code_in_a_journal(template: Path, tmp_path: Path, kind: str) -> None:
    shutil.copytree(template, tmp_path / "run")
    HOSTILE[kind](tmp_path / "run")
    with pytest.raises(JournalError, match="which genmix does not write"):
        JournalReader.open(tmp_path / "run")


def test_a_run_becomes_readable_again(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed read keeps nothing, so that counts are not doubled afterward."""
    folder = tmp_path / "run"
    shutil.copytree(template, folder)
    run = RunMonitor(folder)
    assert list_entry("run", run, Actions())["samples"] == 60
    sql("UPDATE timeline SET weights = '3'")(folder)
    monkeypatch.setattr(monitor, "RETRY_SECONDS", 0.0)
    assert is_unreadable(list_entry("run", run, Actions()))
    sql("UPDATE timeline SET weights = '{}'")(folder)
    time.sleep(0.06)
    entry = list_entry("run", run, Actions())
    assert entry["samples"] == 60
    assert json.dumps(entry, allow_nan=False)


@pytest.mark.long
def test_two_hundred_hostile_journals_do_not_affect_good_runs(
    template: Path, tmp_path: Path
) -> None:
    for i in range(20):
        shutil.copytree(template, tmp_path / f"good {i}")
    kinds = tuple(HOSTILE)
    for i in range(200):
        folder = tmp_path / f"bad {i}"
        shutil.copytree(template, folder)
        HOSTILE[kinds[i % len(kinds)]](folder)
    waits: dict[str, list[float]] = {"/runs": [], "/": [], "/run/good 3": [], "/state/good 7": []}
    with serving(tmp_path) as url, httpx.Client(base_url=url, timeout=60, verify=False) as web:
        for _ in range(20):
            for page, times in waits.items():
                begin = time.monotonic()
                answer = web.get(page)
                times.append(time.monotonic() - begin)
                assert answer.status_code == 200
            found = {run["name"]: run for run in web.get("/runs").json()["runs"]}
            assert len(found) == 220
            assert {found[f"good {i}"]["samples"] for i in range(20)} == {60}
            assert not any("samples" in found[f"bad {i}"] for i in range(200))
    for page, times in waits.items():
        print(f"{page}: first {times[0]:.3f} s, slowest later {max(times[1:]):.3f} s")
