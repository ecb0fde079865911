"""Objects of plugins that do what nobody expects: the run ends, and the journal stays valid."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.data.samples import Request, Sample
from genmix.engines.outcomes import sanitized, validated
from genmix.errors import StorageError
from genmix.generators.base import GenerationError
from genmix.journal.integrity import check_run
from genmix.journal.journal import Journal
from genmix.journal.schema import Entry
from genmix.objectives import Batch
from genmix.runs.arm import ArmState
from genmix.runs.retries import Retries
from genmix.study.sections import Retries as RetrySettings
from tests.support.report_runs import feature_run


class Tokens(enum.IntEnum):
    MANY = 7


@pytest.mark.parametrize("count, kept", [(True, None), (Tokens.MANY, 7), (3, 3), (-1, None)])
def test_token_counts_are_plain_numbers(count: Any, kept: int | None) -> None:
    found = validated(Sample(text="hello", input_tokens=count))
    assert isinstance(found, Sample)
    assert (found.input_tokens, type(found.input_tokens)) == (kept, type(kept))


def test_an_error_without_its_attributes_or_message_is_still_an_error() -> None:
    class Bare(GenerationError):
        def __init__(self) -> None:
            pass

        def __str__(self) -> str:
            raise ZeroDivisionError

    found = sanitized(Bare())
    assert "Bare" in str(found)
    assert (found.cost, found.may_be_charged) == (None, False)


def test_a_hook_that_fails_counts_the_request_and_ends_the_call() -> None:
    class Slow:
        def may_be_charged(self, request: Request) -> bool:
            raise ZeroDivisionError

        async def generate(self, requests: Sequence[Request]) -> Any:
            raise GenerationError("cut off", may_be_charged=True)
            yield

    events: list[Any] = []
    arm = ArmState("a", Slow(), 1, 1, Retries(RetrySettings()))  # type: ignore[arg-type]
    asyncio.run(arm.call([Entry(1, "a", 1, 0, 1.0, 1.0)], events.append))
    assert len(events) == 2
    assert events[0].outcome.may_be_charged


def test_a_write_that_failed_leaves_the_checksum_of_what_is_there(tmp_path: Path) -> None:
    """A full disk makes SQLite roll back by itself; the next write must not count the lost row."""
    folder = feature_run(tmp_path, 30).folder
    with Journal.open(folder) as journal:
        pages = journal._db.execute("PRAGMA page_count").fetchone()[0]
        journal._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StorageError):
            journal.set_meta("note", "x" * 500_000)
        journal._db.execute("PRAGMA max_page_count = 1000000")
        journal.set_meta("note", "short")
    assert check_run(folder).journal == "verified"


def test_a_deviation_does_not_depend_on_the_scale() -> None:
    """The contributions to the gradient of FD are those of scale 1, times the scale squared."""
    rng = np.random.default_rng(0)
    rows, real = rng.normal(size=(40, 4)), rng.normal(size=(60, 4))
    planes = []
    for scale in (1.0, 1e-20, 1e20):
        tally = gx.FrechetDistance(real * scale).tally(2, rows)
        for arm, part in enumerate((rows[:20], rows[20:] + 0.3)):
            tally.add(arm, Batch(part * scale))
        loss, alpha = tally.loss([0, 1]), np.array([0.4, 0.6])
        batch = Batch(rows[:20] * scale)
        planes.append(tally.sample_plane(loss, [0, 1], alpha, batch) / scale**2)
        assert planes[-1].mean() == pytest.approx(
            loss.expand(alpha).gradient[0] / scale**2, rel=1e-9
        )
    assert planes[1] == pytest.approx(planes[0], rel=1e-9)
    assert planes[2] == pytest.approx(planes[0], rel=1e-9)
