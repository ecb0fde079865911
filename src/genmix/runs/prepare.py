"""From a study to what a run needs, with every mistake found that can be found before it costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from genmix.data.samples import Sample
from genmix.encoders.base import Encoder, EncodingError
from genmix.encoders.cache import CachedEncoder, cache_folder
from genmix.errors import InputError
from genmix.generators.base import GenerationError, Generator
from genmix.generators.settings import Context
from genmix.objectives.base import Objective
from genmix.runs.references import read_reference
from genmix.selector.selector import Selector
from genmix.study.config import Study
from genmix.study.terms import make_objective, make_policy

Note = Callable[[str], None]
"""Takes a line that tells what is being done."""


def make_generators(study: Study, folder: Path) -> dict[str, Generator]:
    found = {}
    for label, settings in study.arms.items():
        try:
            found[label] = settings.build(Context(folder, study.seed, label))
        except InputError as error:
            raise InputError(f"arm {label!r}: {error}") from error
    return found


def make_encoder(study: Study, folder: Path, note: Note = lambda line: None) -> Encoder | None:
    """The encoder, which embeds the same content only once, also over several runs."""
    if study.encoder is None:
        return None
    return CachedEncoder(study.encoder.build(folder), cache_folder(), note)


def make_selector(study: Study, folder: Path, encoder: Encoder | None, note: Note) -> Selector:
    """The selector before its first step, with references read or embedded."""
    objective = make_objective(study, lambda path: read_reference(path, folder, encoder, note))
    return Selector(
        list(study.arms),
        objective,
        make_policy(study),
        warm_start=study.warm_start,
        seed=study.seed,
        draw=study.draw,
        resolve_growth=study.resolve_growth,
        encoder=None if encoder is None else encoder.name,
    )


def load_encoder(objective: Objective, encoder: Encoder | None, note: Note) -> None:
    """Find a bad model or a wrong dimension before anything is paid for."""
    if encoder is not None:
        note(f"loading the encoder {encoder.name}")
        encoder.load()
        if encoder.dimension is None and objective.dimension is not None:
            with suppress(EncodingError):  # it may want images, whose first one will tell
                encoder.encode([Sample(text="a word, for the dimension")])
    check_dimension(objective, encoder)


def check_dimension(objective: Objective, encoder: Encoder | None) -> None:
    given, wanted = None if encoder is None else encoder.dimension, objective.dimension
    if encoder is not None and None not in (given, wanted) and given != wanted:
        raise InputError(
            f"the encoder {encoder.name} gives {given} dimensions and the reference has {wanted}: "
            "embed the reference with the same encoder."
        )


def check_supply(study: Study, generators: Mapping[str, Generator]) -> None:
    """Refuse arms that may run out of samples before the budget does."""
    wanted = study.budget.samples
    supply = {label: generator.available() for label, generator in generators.items()}
    if wanted is None:
        _check_end(study, generators)
        return
    if None not in supply.values() and sum(supply.values()) < wanted:  # type: ignore[arg-type]
        raise InputError(
            f"the arms have {sum(supply.values())} samples together and the budget asks for "  # type: ignore[arg-type]
            f"{wanted}: lower budget.samples, or give the arms more."
        )
    most = wanted - study.warm_start * (len(supply) - 1)
    for label, count in supply.items():
        may_run_dry = getattr(study.arms[label], "exhausted", "refuse") == "retire"
        if count is not None and count < max(most, study.warm_start) and not may_run_dry:
            raise InputError(
                f"arm {label!r} has {count} samples and the budget may need {most} of it: lower "
                "budget.samples, give it more, or set 'exhausted: retire' to go on without it."
            )


def _check_end(study: Study, generators: Mapping[str, Generator]) -> None:
    """Refuse a budget that would never be spent."""
    free = all(generator.most_cost() == 0 for generator in generators.values())
    endless = any(generator.available() is None for generator in generators.values())
    if study.budget.time is None and free and endless:
        raise InputError(
            "the budget is a cost and no arm costs anything: give the arms prices, or set "
            "budget.samples or budget.time."
        )


async def ping_all(generators: Mapping[str, Generator]) -> None:
    """Ask every arm for a sign of life that costs nothing."""
    outcomes = await asyncio.gather(
        *(generator.ping() for generator in generators.values()), return_exceptions=True
    )
    for label, outcome in zip(generators, outcomes, strict=True):
        if isinstance(outcome, GenerationError):
            raise InputError(f"arm {label!r}: {outcome}") from outcome
        if isinstance(outcome, BaseException):
            raise outcome


async def close_all(generators: Mapping[str, Generator], encoder: Encoder | None) -> None:
    closing: list[Any] = [generator.close() for generator in generators.values()]
    await asyncio.gather(*closing, return_exceptions=True)
    if encoder is not None:
        encoder.close()
