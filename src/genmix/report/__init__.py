"""The report of a run: what came of it, in words, numbers and charts, as one HTML file."""

from __future__ import annotations

import os
from pathlib import Path

from genmix.errors import InputError

NAME = "report.html"


def write_report(run: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Write the report of a run folder, by default into it, and give its path."""
    from genmix.report.data import gather
    from genmix.report.page import render

    folder = Path(run)
    target = folder / NAME if out is None else Path(out)
    text = render(gather(folder))
    draft = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, "utf-8")
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InputError(f"{target} could not be written: {error.strerror or error}.") from error
    return target
