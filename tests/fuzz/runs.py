"""Targets that read studies, saved selectors and runs."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import genmix as gx
from genmix.core import state
from genmix.journal.reader import JournalReader
from genmix.report import write_report
from genmix.runs.check import check_study
from genmix.runs.export import export
from genmix.study.study import study_from
from tests.fuzz.damage import changed, damaged
from tests.fuzz.files import NPY, Named, numpy_files, put
from tests.fuzz.harness import Target
from tests.study.test_fuzz import FULL_DATA, corrupted, corrupted_text
from tests.support.studies import read

STUDY = """\
arms:
  good: {{kind: recorded, path: good.npy, exhausted: retire}}
  other: {{kind: recorded, path: {name}, exhausted: retire}}
objective: vendi
budget: {{samples: 5}}
warm_start: 1
"""
GOOD = np.random.default_rng(1).standard_normal((6, 3))


# -- studies -----------------------------------------------------------------------------------------


def read_study_text(folder: Path, case: str | bytes) -> None:
    read(folder, case)


def read_study_dict(folder: Path, case: Any) -> None:
    study_from(case)


def study_texts() -> st.SearchStrategy[str | bytes]:
    return st.one_of(corrupted_text(), corrupted_text(), st.binary(max_size=60))


# -- selectors ---------------------------------------------------------------------------------------


@cache
def selectors() -> list[gx.Selector]:
    """Selectors in different states: new, in the warm start, solved, with tickets in flight."""
    found = []
    for objective in (gx.Vendi(), gx.RKE(kernel=gx.Gaussian(1.0)), gx.FrechetDistance(GOOD)):
        for count in (0, 3, 14):
            selector = gx.Selector(["a", "b"], objective, warm_start=3)
            for row in np.random.default_rng(2).standard_normal((count, 3)):
                [ticket] = selector.ask()
                selector.tell(ticket, row)
            selector.ask(2)
            found.append(selector)
    found[-1].add_arm("c")
    return found


@cache
def saved_selectors() -> list[bytes]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for selector in selectors():
            selector.save(Path(folder) / "s.npz")
            found.append((Path(folder) / "s.npz").read_bytes())
    return found


def load_selector(folder: Path, case: bytes) -> None:
    _use(gx.Selector.load(put(folder, ("s.npz", case))))


def restore_selector(folder: Path, case: Any) -> None:
    _use(gx.Selector.from_state_dict(case))


def save_and_load_state(folder: Path, case: Any) -> None:
    """Write a changed state to a file whose checksums are right."""
    try:
        state.save(folder / "s.npz", case)
    except (TypeError, ValueError):  # JSON cannot represent it
        return
    _use(gx.Selector.load(folder / "s.npz"))


def _use(selector: gx.Selector) -> None:
    """Use a selector that was loaded; a damaged state must not fail later."""
    _ = selector.weights, selector.mixture, selector.gap, selector.score, selector.counts
    selector.ask(2)
    selector.state_dict()


def state_files() -> st.SearchStrategy[bytes]:
    return st.sampled_from(saved_selectors()).flatmap(damaged)


def states() -> st.SearchStrategy[Any]:
    return st.sampled_from([selector.state_dict() for selector in selectors()]).flatmap(changed)


# -- journals ----------------------------------------------------------------------------------------


@cache
def run_files() -> dict[str, bytes]:
    """The files of a small run with texts, images missing, and failures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "good.npy", GOOD)
        np.save(folder / "other.npy", 2 * GOOD)
        (folder / "study.yaml").write_text(STUDY.format(name="other.npy"))
        run = gx.run(folder / "study.yaml", folder / "run")
        return {file.name: file.read_bytes() for file in run.folder.iterdir() if file.is_file()}


OLD = Path(__file__).parents[1] / "runs" / "data" / "v0.1" / "finished" / "journal.sqlite"
CELLS = [
    None,
    0,
    -1,
    2**63 - 1,
    0.5,
    float("inf"),
    -1e308,
    "",
    "text",
    "{}",
    "[1]",
    "[" * 5000,
    b"",
    b"\0" * 9,
]


def journals() -> st.SearchStrategy[bytes]:
    """Journals with damaged bytes: one with checksums, and one from a version without them."""
    return st.one_of(damaged(run_files()["journal.sqlite"]), damaged(OLD.read_bytes()))


@st.composite
def edited_journals(draw: st.DrawFn) -> bytes:
    """Valid databases in which a few cells, rows or tables are changed."""
    content = draw(st.sampled_from([run_files()["journal.sqlite"], OLD.read_bytes()]))
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(content.replace(b"\x02\x02", b"\x01\x01", 1))  # out of WAL mode
        for _ in range(draw(st.integers(1, 2))):
            _edit(db, draw(st.integers(0, 10**9)), draw(st.sampled_from(CELLS)))
        db.commit()
        return db.serialize()


def _edit(db: sqlite3.Connection, number: int, value: object) -> None:
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    table = tables[number % len(tables)]
    columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
    column = columns[number // 7 % len(columns)]
    where = f'rowid = (SELECT rowid FROM "{table}" LIMIT 1 OFFSET {number // 97 % 9})'
    change = number % 11
    with suppress(sqlite3.Error):  # a constraint
        if change == 0:
            db.execute(f'DELETE FROM "{table}" WHERE {where}')
        elif change == 1:
            db.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other"')
        elif change == 2 and number % 5 == 0:
            db.execute(f'DROP TABLE "{table}"')
        else:
            db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {where}', (value,))


def _run_folder(folder: Path, journal: bytes) -> Path:
    home = folder / "run"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    for name, content in (run_files() | {"journal.sqlite": journal}).items():
        if not name.endswith(("-shm", "-wal")):
            (home / name).write_bytes(content)
    return home


def read_journal(folder: Path, case: bytes) -> None:
    with JournalReader.open(_run_folder(folder, case)) as journal:
        journal.events()
        journal.failures()
        journal.timeline()
        list(journal.told_rows())
        journal.meta("study")


def export_journal(folder: Path, case: bytes) -> None:
    home = _run_folder(folder, case)
    list(gx.Run(home).samples())
    export(home, "jsonl")
    export(home, "parquet")


def report_journal(folder: Path, case: bytes) -> None:
    write_report(_run_folder(folder, case))


def resume_journal(folder: Path, case: bytes) -> None:
    home = _run_folder(folder, case)
    np.save(home / "good.npy", GOOD)
    np.save(home / "other.npy", 2 * GOOD)
    gx.resume(home)


# -- whole studies -----------------------------------------------------------------------------------


def check_and_run(folder: Path, case: Named) -> None:
    """Check a study with a damaged file, then run it: both must agree."""
    np.save(folder / "good.npy", GOOD)
    put(folder, case)
    (folder / "study.yaml").write_text(STUDY.format(name=case[0]))
    shutil.rmtree(folder / "run", ignore_errors=True)
    problems = check_study(folder / "study.yaml").problems
    try:
        gx.run(folder / "study.yaml", folder / "run")
    except gx.GenmixError as error:
        if not problems:
            raise AssertionError("check is clean, but run is not") from error
        raise
    assert not problems, f"run is clean, but check says: {problems}"


def arm_files() -> st.SearchStrategy[Named]:
    return st.one_of(st.tuples(st.just("x.npy"), damaged(NPY)), numpy_files())


TARGETS = [
    Target("study: text", 6_000, study_texts, read_study_text),
    Target("study: dict", 4_000, lambda: corrupted(FULL_DATA), read_study_dict),
    Target("check and run", 300, arm_files, check_and_run),
    Target("selector: file", 2_500, state_files, load_selector),
    Target("selector: state", 3_000, states, restore_selector),
    Target("selector: changed file", 1_000, states, save_and_load_state),
    Target("journal: read", 2_000, journals, read_journal),
    Target("journal: edited", 1_000, edited_journals, read_journal),
    Target(
        "journal: export", 500, lambda: st.one_of(journals(), edited_journals()), export_journal
    ),
    Target(
        "journal: resume", 150, lambda: st.one_of(journals(), edited_journals()), resume_journal
    ),
    Target("journal: report", 30, lambda: st.one_of(journals(), edited_journals()), report_journal),
]
