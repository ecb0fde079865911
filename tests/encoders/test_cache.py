"""The cache: each content once, for several processes, and never in the way of a run."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genmix.data.samples import Sample
from genmix.encoders import CachedEncoder, cache_folder
from genmix.encoders.base import EncodingError
from genmix.encoders.cache import FILE
from tests.encoders.test_encoders import IMAGES, TEXTS, VECTORS
from tests.support import tiny_encoders as tiny


class Lengths:
    """A real if humble encoder: counts of bytes, whatever the content is."""

    def __init__(self, name: str = "lengths", dimension: int = 3) -> None:
        self.name, self._width = name, dimension
        self.dimension: int | None = None
        self.broken = False

    def encode(self, samples: Sequence[Sample]) -> Any:
        if self.broken:
            raise EncodingError("the encoder is broken; fix it.")
        self.dimension = self._width
        rows = [self._row(s.image if s.text is None else s.text.encode()) for s in samples]
        return np.array(rows, np.float64)

    def _row(self, content: bytes | None) -> list[float]:
        return [sum(content or b"") / 7 + column for column in range(self._width)]

    def load(self) -> None: ...

    def close(self) -> None: ...


def cached(folder: Path, encoder: Any = None, note: Any = None) -> tuple[CachedEncoder, Any]:
    inner = tiny.Counting(encoder or Lengths())
    return CachedEncoder(inner, folder, note), inner


def test_each_content_is_encoded_once(tmp_path: Path) -> None:
    encoder, inner = cached(tmp_path)
    rows = encoder.encode([TEXTS[0], TEXTS[1], TEXTS[0]])
    assert inner.asked == 2
    assert (rows[0] == rows[2]).all()
    again = encoder.encode([TEXTS[2], TEXTS[1], TEXTS[0]])
    assert inner.asked == 3
    np.testing.assert_array_equal(again[1:], rows[[1, 0]])
    assert rows.dtype == np.float32


def test_hits_are_bit_for_bit_what_was_given_first(tmp_path: Path) -> None:
    first, _ = cached(tmp_path)
    rows = first.encode(TEXTS)
    first.close()
    second, inner = cached(tmp_path)
    inner.encoder.broken = True
    np.testing.assert_array_equal(second.encode(TEXTS[::-1]), rows[::-1])
    assert second.dimension == 3  # and the encoder does not know yet
    assert inner.dimension is None


def test_another_name_or_modality_is_another_entry(tmp_path: Path) -> None:
    encoder, _ = cached(tmp_path)
    encoder.encode(TEXTS)
    other, inner = cached(tmp_path, Lengths("other"))
    assert other.dimension is None
    other.encode(TEXTS)
    assert inner.asked == len(TEXTS)
    same_bytes, inner = cached(tmp_path)
    same_bytes.encode([Sample(image=(TEXTS[0].text or "").encode())])
    assert inner.asked == 1


def test_vectors_go_past_it(tmp_path: Path) -> None:
    from genmix.encoders.precomputed import PrecomputedEncoder

    encoder, inner = cached(tmp_path, PrecomputedEncoder())
    encoder.encode(VECTORS)
    encoder.encode(VECTORS)
    assert inner.asked == 2 * len(VECTORS)
    assert not (tmp_path / FILE).exists()


def test_nothing_in_nothing_out(tmp_path: Path) -> None:
    encoder, inner = cached(tmp_path)
    assert encoder.encode([]).shape == (0, 0)
    encoder.encode(TEXTS)
    assert encoder.encode([]).shape == (0, 3)
    assert inner.asked == len(TEXTS)


def test_more_keys_than_a_statement_takes(tmp_path: Path) -> None:
    samples = [Sample(text=f"text {i}") for i in range(1203)]
    encoder, inner = cached(tmp_path)
    rows = encoder.encode(samples)
    np.testing.assert_array_equal(encoder.encode(samples), rows)
    assert inner.asked == len(samples)


def test_odd_texts_are_contents_too(tmp_path: Path) -> None:
    from genmix.encoders.cache import _key

    texts = ["", "a", "a ", "A", "é", "e\u0301", "\ud800", "'; DROP TABLE embeddings; --"]
    assert len({_key("n", Sample(text=text)) for text in texts}) == len(texts)


def test_an_encoding_error_passes_and_nothing_is_kept(tmp_path: Path) -> None:
    encoder, inner = cached(tmp_path)
    inner.encoder.broken = True
    with pytest.raises(EncodingError):
        encoder.encode(TEXTS)
    inner.encoder.broken = False
    assert encoder.encode(TEXTS).shape == (5, 3)


def test_an_encoder_that_changed_under_its_name_is_asked_anew(tmp_path: Path) -> None:
    before, _ = cached(tmp_path)
    before.encode(TEXTS[:3])
    after, inner = cached(tmp_path, Lengths(dimension=4))
    assert after.encode(TEXTS).shape == (5, 4)
    assert after.encode(TEXTS).shape == (5, 4)
    assert inner.asked == 2 + 5  # the two that were missing, then all, then none


# -- what may be wrong with it -----------------------------------------------------------------------


def goes_on_with_one_note(folder: Path) -> str:
    notes: list[str] = []
    encoder, inner = cached(folder, note=notes.append)
    for _ in range(2):
        assert encoder.encode(TEXTS).shape == (5, 3)
    assert encoder.dimension == 3
    encoder.close()
    assert inner.asked == 2 * len(TEXTS)
    (note,) = notes
    assert str(folder / FILE) in note
    assert "GENMIX_CACHE" in note
    return note


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"nonsense" * 1000)
    assert "not a database" in goes_on_with_one_note(tmp_path)
    assert (tmp_path / FILE).read_bytes() == b"nonsense" * 1000


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    goes_on_with_one_note(tmp_path / "file" / "cache")


def test_a_place_where_nothing_can_be_written() -> None:
    goes_on_with_one_note(Path("/proc/genmix"))


def test_a_database_torn_in_the_middle(tmp_path: Path) -> None:
    samples = [Sample(text=f"text {i}") for i in range(2000)]
    encoder, _ = cached(tmp_path)
    encoder.encode(samples)
    encoder.close()
    file = tmp_path / FILE
    content = bytearray(file.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    file.write_bytes(content)
    notes: list[str] = []
    torn, inner = cached(tmp_path, note=notes.append)
    assert torn.encode(samples).shape == (2000, 3)
    assert inner.asked == 2000
    assert len(notes) == 1


def test_a_full_disk(tmp_path: Path) -> None:
    """SQLite says the same when the file may grow no more as when the disk has no room."""
    encoder, inner = cached(tmp_path, note=(notes := []).append)
    encoder.encode(TEXTS)
    store = encoder._store
    assert store is not None
    with store._opened() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")
    many = [Sample(text=f"text {i}") for i in range(3000)]
    assert encoder.encode(many).shape == (3000, 3)
    assert len(notes) == 1
    assert "full" in notes[0]
    assert encoder.encode(many).shape == (3000, 3)
    assert inner.asked == len(TEXTS) + 2 * len(many)
    fresh, inner = cached(tmp_path)
    fresh.encode(TEXTS)  # what was there before still is
    assert inner.asked == 0


def test_entries_that_are_nonsense_are_encoded_again(tmp_path: Path) -> None:
    encoder, _ = cached(tmp_path)
    rows = encoder.encode(TEXTS[:3])
    encoder.close()
    with sqlite3.connect(tmp_path / FILE) as db:
        keys = [key for (key,) in db.execute("SELECT key FROM embeddings")]
        nonsense: list[Any] = [b"abc", b"", np.full(3, np.nan, "<f4").tobytes()]
        for key, vector in zip(keys, nonsense, strict=True):
            db.execute("UPDATE embeddings SET vector = ? WHERE key = ?", (vector, key))
    again, inner = cached(tmp_path)
    np.testing.assert_array_equal(again.encode(TEXTS[:3]), rows)
    assert inner.asked == 3


def test_without_a_note_it_warns(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"nonsense" * 1000)
    encoder, _ = cached(tmp_path)
    with pytest.warns(RuntimeWarning, match="embedding cache"):
        encoder.encode(TEXTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.encode(TEXTS)


# -- several processes -------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from genmix.encoders import CachedEncoder
from genmix.data.samples import Sample
sys.path.insert(0, sys.argv[1])
from tests.encoders.test_cache import Lengths
def note(message):
    sys.exit(message)
encoder = CachedEncoder(Lengths(), Path(sys.argv[2]), note)
for start in range(0, 400, 20):
    encoder.encode([Sample(text=f"text {i}") for i in range(start, start + 30)])
encoder.close()
"""


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(Path(__file__).parents[2]), str(tmp_path / "new")]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for process in running:
        _, said = process.communicate()
        assert process.returncode == 0, said
    encoder, inner = cached(tmp_path / "new")
    encoder.encode([Sample(text=f"text {i}") for i in range(410)])
    assert inner.asked == 0


# -- where it lies -----------------------------------------------------------------------------------


def test_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GENMIX_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "genmix"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "genmix"
    monkeypatch.setenv("GENMIX_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"


def test_images_are_kept_by_their_bytes(tmp_path: Path) -> None:
    encoder, inner = cached(tmp_path)
    rows = encoder.encode(IMAGES)
    np.testing.assert_array_equal(encoder.encode(IMAGES), rows)
    assert inner.asked == len(IMAGES)
