"""Report the progress of searches for nearest neighbors, which compare all pairs of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

Report = Callable[[str, int, int], None]
"""Receives a title, the number of samples that are done, and their total."""

_report: ContextVar[Report | None] = ContextVar("progress of nearest neighbors", default=None)


@contextmanager
def reporting_neighbors(report: Report) -> Iterator[None]:
    """Call ``report`` after each block of samples inside the ``with`` block."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


def reported(blocks: Sequence[slice], title: str) -> Iterator[slice]:
    """Iterate over blocks of rows, and report each when it is done."""
    report = _report.get()
    for rows in blocks:
        yield rows
        if report is not None:
            report(title, rows.stop, blocks[-1].stop)
