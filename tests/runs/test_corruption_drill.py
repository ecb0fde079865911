"""Random damage to a journal or to ``selector.npz``: the results stay the same, or one sentence says why not.

Each case copies a run, damages one file, and then exports and resumes the run, as a user would.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.errors import GenmixError
from genmix.journal.reader import JournalReader
from genmix.journal.schema import JOURNAL
from genmix.report.facts import Facts
from genmix.runs.snapshot import SNAPSHOT

SHORT, LONG = 40, 2000
MAX_SECONDS = 60.0
"""A case that takes longer counts as a hang; it needs about a tenth of a second."""

Damage = Callable[[Path, np.random.Generator], None]


# -- runs --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run, a stopped one with a snapshot, and one that was killed."""
    home = tmp_path_factory.mktemp("corruption")
    arms: dict[str, Any] = {}
    for index, name in enumerate(("left", "right")):
        points = np.random.default_rng(index).normal(size=(80, 4)) + 3 * np.eye(4)[index]
        np.save(home / f"{name}.npy", points)
        path = str(home / f"{name}.npy")
        arms[name] = {"kind": "recorded", "path": path, "cost": 0.25 * (index + 1)}
    study = {
        "arms": arms,
        "objective": "vendi",
        "budget": {"samples": 40},
        "warm_start": 4,
        "in_flight": 1,  # so that resuming is reproducible to the bit
    }

    def at(samples: int, act: Callable[[Any], None]) -> Callable[[Any], None]:
        return lambda live: act(live) if live.told >= samples else None

    found = {name: home / name for name in ("finished", "stopped", "killed")}
    copy = at(25, lambda live: copy_run(live.folder, found["killed"]))
    gx.run(study, found["finished"], callbacks=[copy])
    gx.run(study, found["stopped"], callbacks=[at(25, lambda live: live.loop.stop("interrupted"))])
    (found["killed"] / "lock").unlink(missing_ok=True)
    for folder in found.values():  # move the write-ahead log into the journal
        sqlite3.connect(folder / JOURNAL).execute(
            "PRAGMA wal_checkpoint(TRUNCATE)"
        ).connection.close()
    return found


def copy_run(source: Path, target: Path) -> Path:
    if target.exists():
        return target
    return Path(shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.part", "lock")))


def outcome(folder: Path) -> dict[str, Any]:
    """Everything a user takes from a run: the data set so far, and what resuming leads to."""
    exported = gx.export(folder, "jsonl", folder.with_suffix(".jsonl")).read_text("utf-8")
    facts = Facts(folder)
    with JournalReader.open(folder) as journal:
        failures = journal.failures()
    run = gx.resume(folder)
    kept = ("samples", "counts", "weights", "gap", "cost", "status", "reason", "retired", "encoder")
    return {
        "exported": exported,
        "timeline": [row["weights"] for row in facts.timeline],
        "weights": facts.weights,
        "failures": failures,
        "resumed": (folder / "samples.jsonl").read_text("utf-8"),
        "summary": {key: run.summary[key] for key in kept},
    }


# -- damage ------------------------------------------------------------------------------------------


def change_bytes(path: Path, rng: np.random.Generator) -> None:
    content = bytearray(path.read_bytes())
    for place in rng.integers(len(content), size=rng.integers(1, 11)):
        content[place] ^= int(rng.integers(1, 256))
    path.write_bytes(content)


def truncate(path: Path, rng: np.random.Generator) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.integers(len(content))])


def change_value(path: Path, rng: np.random.Generator) -> None:
    """Change one value by SQL, to another one of its type."""
    with sqlite3.connect(path) as db:
        table, row = some_row(db, rng)
        names = [column[1] for column in db.execute(f"PRAGMA table_info({table})")]
        [old] = db.execute(f"SELECT * FROM {table} WHERE rowid = ?", (row,)).fetchall()
        place = int(rng.integers(len(names)))
        new = other_value(old[place], rng)
        with suppress(sqlite3.IntegrityError):  # the schema may forbid it
            db.execute(f"UPDATE {table} SET {names[place]} = ? WHERE rowid = ?", (new, row))
    db.close()


def other_value(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, int | float):
        return value + type(value)(rng.integers(1, 5))
    if isinstance(value, str) and value:
        place = int(rng.integers(len(value)))
        return value[:place] + chr(97 + (ord(value[place]) + 1) % 26) + value[place + 1 :]
    if isinstance(value, bytes) and value:
        place = int(rng.integers(len(value)))
        return value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]
    return None


def delete_row(path: Path, rng: np.random.Generator) -> None:
    with sqlite3.connect(path) as db:
        table, row = some_row(db, rng)
        db.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
    db.close()


def add_row(path: Path, rng: np.random.Generator) -> None:
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO failures (ticket, arm, at, stage, message, cost)"
                   " VALUES (0, 'left', 1.0, 'generate', 'none', 5.0)")  # fmt: skip
    db.close()


def some_row(db: sqlite3.Connection, rng: np.random.Generator) -> tuple[str, int]:
    tables = ("meta", "tickets", "samples", "events", "timeline")
    table = tables[rng.integers(len(tables))]
    rows = [row for (row,) in db.execute(f"SELECT rowid FROM {table}")]
    return table, rows[rng.integers(len(rows))]


FILE_DAMAGE: tuple[Damage, ...] = (change_bytes, change_bytes, truncate)
SQL_DAMAGE: tuple[Damage, ...] = (change_value, change_value, delete_row, add_row)


# -- cases -------------------------------------------------------------------------------------------


def play(runs: dict[str, Path], expected: dict[str, Any], folder: Path, seed: int) -> str:
    """Damage a copy of a run, and return whether the result is the same or a sentence."""
    rng = np.random.default_rng([14, seed])
    name = list(runs)[rng.integers(len(runs))]
    target = (JOURNAL, JOURNAL, SNAPSHOT)[rng.integers(3)]
    if not (runs[name] / target).exists():
        target = JOURNAL
    kinds = FILE_DAMAGE if target == SNAPSHOT or rng.random() < 0.6 else SQL_DAMAGE
    if name == "killed":  # the row that was written last may vanish
        kinds = tuple(kind for kind in kinds if kind is not delete_row)
    copied, damage = copy_run(runs[name], folder / str(seed)), kinds[rng.integers(len(kinds))]
    damage(copied / target, rng)
    case = f"case {seed}: {damage.__name__} in {target} of the {name} run"
    started = time.monotonic()
    found = outcome_or_sentence(copied)
    if isinstance(found, str):
        assert target == JOURNAL, f"{case} must not matter, but: {found}"
        assert_sentence(found, case)
    else:
        assert json.dumps(found) == json.dumps(expected[name]), f"{case} changed the results"
    assert time.monotonic() - started < MAX_SECONDS, f"{case} hangs"
    shutil.rmtree(copied)
    return f"{target}: {'sentence' if isinstance(found, str) else 'same'}"


def outcome_or_sentence(folder: Path) -> dict[str, Any] | str:
    try:
        return outcome(folder)
    except GenmixError as error:
        return str(error)


def assert_sentence(text: str, case: str) -> None:
    assert text.endswith("."), f"{case}: {text}"
    assert "\n" not in text, f"{case}: {text}"
    assert len(text) < 600, f"{case}: {text}"


@pytest.fixture(scope="module")
def expected(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("expected")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_REPORT", "off")
        return {name: outcome(copy_run(run, folder / name)) for name, run in runs.items()}


@pytest.mark.parametrize(
    "seeds", [range(SHORT), pytest.param(range(SHORT, SHORT + LONG), marks=pytest.mark.long)]
)
def test_damage_changes_nothing_or_is_reported_in_one_sentence(
    runs: dict[str, Path],
    expected: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seeds: range,
) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")
    results = Counter(play(runs, expected, tmp_path, seed) for seed in seeds)
    print(dict(results))
    assert results.total() == len(seeds)
    assert results[f"{JOURNAL}: sentence"] > 5
    assert results[f"{SNAPSHOT}: same"] > 3
