"""Connections to a journal's file, also where nothing can be written, and what went wrong with one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
NOTHING_BESIDE = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
)
"""What SQLite says where it cannot make the file beside a journal that readers share with a writer."""


def reader(path: Path) -> sqlite3.Connection:
    """Also where nothing can be written, as long as no writer has left something beside the journal."""
    try:
        return connect(path, "ro")
    except sqlite3.Error as error:
        if _code(error) not in NOTHING_BESIDE or _has_more_beside(path):
            raise
    return connect(path, "ro&immutable=1")


def _has_more_beside(path: Path) -> bool:
    """Whether something was written ahead that is not in the journal itself yet."""
    ahead = path.with_name(f"{path.name}-wal")
    return ahead.exists() and ahead.stat().st_size > 0


def writer(path: Path) -> sqlite3.Connection:
    settings = ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON")
    return connect(path, "rw", *settings)


def connect(path: Path, mode: str, *settings: str) -> sqlite3.Connection:
    """A connection that has looked at the file, which SQLite does not do before it must."""
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        for setting in (*settings, "user_version"):
            connection.execute(f"PRAGMA {setting}").fetchall()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def is_damage(error: sqlite3.Error) -> bool:
    """Whether something is wrong with the file itself, not with the place where it lies."""
    return _code(error) in DAMAGED


def _code(error: sqlite3.Error) -> int:
    """The kind of an error, without its finer distinctions."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
