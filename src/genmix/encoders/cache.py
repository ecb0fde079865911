"""A cache of embeddings, keyed by content, so that no sample is encoded twice."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from genmix.core.atomic import cache_folder as cache_folder
from genmix.data.samples import Sample
from genmix.encoders.base import Encoder, Rows, modality_of

FILE = "embeddings.sqlite"
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS embeddings (key BLOB PRIMARY KEY, vector BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS encoders (name TEXT PRIMARY KEY, dimension INTEGER NOT NULL)",
)
KEYS_PER_QUERY = 500
"""Number of keys per query, below the parameter limit of all SQLite versions."""
BUSY_SECONDS = 30.0
"""Time to wait while another process is writing."""
FORMAT = np.dtype("<f4")


class CachedEncoder:
    """Wraps an encoder; looks up each sample in a cache first, by encoder name and content.

    Several processes can share a folder. If the cache fails, a single warning is issued, and
    encoding continues without it.
    """

    def __init__(
        self, encoder: Encoder, folder: Path, warn: Callable[[str], None] | None = None
    ) -> None:
        self.name = encoder.name
        self._encoder = encoder
        self._store: _Store | None = _Store(folder / FILE)
        self._warn = _warn if warn is None else warn
        self.before_encoding: Callable[[], None] = lambda: None
        """Called before encoding samples that are not in the cache."""

    @property
    def dimension(self) -> int | None:
        """Dimension of the embeddings, from the cache if the encoder does not know it yet."""
        if self._encoder.dimension is not None:
            return self._encoder.dimension
        with self._guarded_store() as store:
            return None if store is None else store.dimension(self.name)

    @property
    def keeps_time(self) -> bool:
        """Whether the encoder itself stops at the time limit of its settings."""
        return getattr(self._encoder, "keeps_time", False)

    def encode(self, samples: Sequence[Sample]) -> Rows:
        """Return float32 embeddings of shape ``(n, d)``; repeated samples are encoded once."""
        if any(modality_of(sample) == "vector" for sample in samples):
            return np.asarray(self._encoder.encode(samples), np.float32)
        keys = [_key(self.name, sample) for sample in samples]
        contents = dict(zip(keys, samples, strict=True))
        cached = self._read(list(contents))
        new = self._encode({key: contents[key] for key in contents if key not in cached})
        if len({row.size for row in (cached | new).values()}) > 1:
            new = self._encode(contents)  # the encoder changed but kept its name
        rows = cached | new
        if not samples:
            return np.empty((0, self.dimension or 0), np.float32)
        return np.stack([rows[key] for key in keys])

    def load(self) -> None:
        self._encoder.load()

    def close(self) -> None:
        with self._guarded_store() as store:
            if store is not None:
                store.close()
        self._encoder.close()

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Rows]:
        with self._guarded_store() as store:
            return {} if store is None else store.read(keys)
        return {}  # the store failed

    def _encode(self, contents: Mapping[bytes, Sample]) -> dict[bytes, Rows]:
        if not contents:
            return {}
        self.before_encoding()
        rows = np.asarray(self._encoder.encode(list(contents.values())), np.float32)
        found = dict(zip(contents, rows, strict=True))
        with self._guarded_store() as store:
            if store is not None:
                store.write(self.name, found)
        return found

    @contextlib.contextmanager
    def _guarded_store(self) -> Iterator[_Store | None]:
        """Yield the store, or None after a failure; a failed store is not used again."""
        try:
            yield self._store
        except (sqlite3.Error, OSError) as error:
            assert self._store is not None
            broken, self._store = self._store, None
            with contextlib.suppress(sqlite3.Error):
                broken.close()
            self._warn(
                f"the embedding cache {broken.path} cannot be used ({error}), so the run continues "
                "without it; delete it or set GENMIX_CACHE to another folder."
            )


class _Store:
    """An SQLite file of keys and vectors, opened on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def dimension(self, name: str) -> int | None:
        with self._opened() as db:
            row = db.execute("SELECT dimension FROM encoders WHERE name = ?", (name,)).fetchone()
        return None if row is None else int(row[0])

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Rows]:
        found: dict[bytes, Rows] = {}
        with self._opened() as db:
            for start in range(0, len(keys), KEYS_PER_QUERY):
                part = keys[start : start + KEYS_PER_QUERY]
                marks = ",".join("?" * len(part))
                query = f"SELECT key, vector FROM embeddings WHERE key IN ({marks})"
                found.update((key, _vector(blob)) for key, blob in db.execute(query, part))
        return {key: row for key, row in found.items() if row.size and np.isfinite(row).all()}

    def write(self, name: str, rows: Mapping[bytes, Rows]) -> None:
        (dimension,) = {row.size for row in rows.values()}
        blobs = [(key, row.astype(FORMAT).tobytes()) for key, row in rows.items()]
        with self._opened() as db, db:
            db.execute("INSERT OR REPLACE INTO encoders VALUES (?, ?)", (name, dimension))
            db.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?)", blobs)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._connection is None:
                self._connection = self._open()
            yield self._connection

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._connect()
            except sqlite3.OperationalError as error:
                # SQLite does not wait if two processes create the file at the same time.
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
            time.sleep(0.02)

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            with db:
                for statement in SCHEMA:
                    db.execute(statement)
        except BaseException:
            db.close()
            raise
        return db


def _key(name: str, sample: Sample) -> bytes:
    modality = modality_of(sample)
    content = sample.image if sample.text is None else sample.text.encode("utf-8", "surrogatepass")
    assert content is not None
    digest = hashlib.sha256()
    for part in (name.encode(), modality.encode(), content):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _vector(blob: bytes) -> Rows:
    """Decode a stored vector; return an empty vector if it is corrupt."""
    whole = blob if isinstance(blob, bytes) and len(blob) % FORMAT.itemsize == 0 else b""
    return np.frombuffer(whole, FORMAT).astype(np.float32)


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)
