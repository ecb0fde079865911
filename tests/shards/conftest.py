"""Shards of every size are read in small blocks, and partial statistics are saved in the test's folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import genmix as gx
from genmix.data import shard_files, shards


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Read shards in blocks of a few rows in this process; yield the folder for partial statistics."""
    monkeypatch.setattr(shards, "HELD_BYTES", 0)
    monkeypatch.setattr(shard_files, "BLOCK_VALUES", 40)
    folder = tmp_path / "progress"
    with gx.streaming(workers=1, folder=folder):
        yield folder
