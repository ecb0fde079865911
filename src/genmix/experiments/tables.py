"""Tables on disk: Parquet, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from genmix.errors import InputError
from genmix.extras import need


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows that have the same keys; an old file stays until the new one is whole."""
    arrow = need("pyarrow", "paper", "a Parquet table")
    parquet = need("pyarrow.parquet", "paper", "a Parquet table")
    draft = path.with_name(path.name + ".part")
    try:
        parquet.write_table(arrow.Table.from_pylist(rows), draft)
        draft.replace(path)
    except OSError as error:
        raise InputError(
            f"{path} could not be written ({error.strerror}): make room, then run it again."
        ) from error
