"""Tables on disk: Parquet, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from genmix.core.atomic import draft_of
from genmix.core.optional import need


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows that have the same keys; an old file stays until the new one is whole."""
    arrow = need("pyarrow", "paper", "a Parquet table")
    parquet = need("pyarrow.parquet", "paper", "a Parquet table")
    with draft_of(path, "make room, then run it again") as draft:
        parquet.write_table(arrow.Table.from_pylist(rows), draft)
