"""Options for samples in folders of shards, and what is shown while they are read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from genmix.cli import print_note
from genmix.cli.notes import notes_on_neighbors
from genmix.cli.samples.sample_options import ScoreOptions
from genmix.cli.tables import counter
from genmix.errors import InputError

if TYPE_CHECKING:
    from genmix.cli.samples.arguments import Inputs


class EngineName(StrEnum):
    local = "local"
    ray = "ray"


@dataclass(frozen=True, kw_only=True)
class ShardOptions(ScoreOptions):
    """Where shards are summarized."""

    engine: Annotated[
        EngineName,
        typer.Option(help="Where folders of shards are summarized: in processes here, or on Ray."),
    ] = EngineName.local
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of the Ray cluster. Default: $RAY_ADDRESS, or a cluster that is started on "
            "this machine."
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(help="Number of processes or Ray tasks for shards. Default: one per core."),
    ] = None


class _Notes(logging.Handler):
    """Print messages about saved and resumed progress."""

    def emit(self, record: logging.LogRecord) -> None:
        print_note(record.getMessage())


@contextmanager
def shard_processing(options: ShardOptions, given: Inputs) -> Iterator[None]:
    """Read shards as the options say, and compare samples, with progress on stderr."""
    import genmix as gx

    has_shards = any(isinstance(arm.features, gx.Shards) for arm in given.loaded)
    if not has_shards:
        _refuse(options)
        with notes_on_neighbors():
            yield
        return
    notes, log = _Notes(), logging.getLogger("genmix.shards")
    level = log.level
    log.setLevel(logging.INFO)  # not log.level = ..., because loggers cache what is enabled
    log.addHandler(notes)
    try:
        with (
            notes_on_neighbors(),
            counter("shards") as report,
            gx.streaming(
                workers=options.workers,
                engine=options.engine,
                address=options.address,
                progress=lambda title, done, total: report(done, total, title),
            ),
        ):
            yield
    finally:
        log.removeHandler(notes)
        log.setLevel(level)


def _refuse(options: ShardOptions) -> None:
    """Refuse options that have no effect without shards."""
    names = {"--engine": options.engine is EngineName.ray, "--address": options.address is not None}
    names["--workers"] = options.workers is not None
    used = next((name for name, is_given in names.items() if is_given), None)
    if used is not None:
        raise InputError(
            f"{used} is for folders of shards, but no input is one; remove the option."
        )
