"""Find the encoder that ``--encoder`` names, and embed texts and images with it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from genmix.core.optional import is_installed, missing_packages
from genmix.core.plugins import kind_of
from genmix.core.text import listed
from genmix.core.user_functions import FUNCTION_NAME
from genmix.data.loaded_arm import LoadedArm
from genmix.encoders import encoder_kinds
from genmix.encoders.base import Encoder, EncoderSettings, EncodingError
from genmix.encoders.cache import CachedEncoder, cache_folder
from genmix.encoders.callable import CallableSettings
from genmix.encoders.embed_items import Report, embed_items
from genmix.errors import InputError
from genmix.inputs.run_arms import is_run
from genmix.journal.reader import JournalReader
from genmix.study.problems import did_you_mean
from genmix.study.study import Study, read_study, study_from

NOT_NAMED = ("callable", "precomputed")
"""Kinds that a name does not describe: a function is given as FILE.py:FUNCTION."""
DEFAULT_MODELS = {"sentence-transformers": "all-MiniLM-L6-v2"}
"""Models of kinds whose settings have no default."""
CHOICES = {
    "images": "pixels, dinov2 or clip",
    "texts": "sentence-transformers",
}
"""What to recommend, by content."""


def embed_arms(
    arms: Iterable[LoadedArm],
    encoder: Encoder | None,
    progress: Callable[[str], AbstractContextManager[Report]],
) -> list[LoadedArm]:
    """Embed the texts and images of the arms that have no features.

    Parameters
    ----------
    arms : iterable of LoadedArm
        The arms. Those with features are returned unchanged.
    encoder : Encoder, optional
        The encoder, e.g. from ``find_encoder``.
    progress : callable
        ``progress(title)`` is a context manager that yields ``report(done, total)``.

    Raises
    ------
    InputError
        If an encoder is needed but missing, or a sample cannot be embedded.
    """
    return [arm if arm.features is not None else _embedded(arm, encoder, progress) for arm in arms]


def _embedded(
    arm: LoadedArm,
    encoder: Encoder | None,
    progress: Callable[[str], AbstractContextManager[Report]],
) -> LoadedArm:
    if encoder is None:
        raise InputError(
            f"{arm.source} contains {arm.content}, which need an encoder; pass --encoder "
            f"{CHOICES[arm.content]}, FILE.py:FUNCTION, or a study file that has one."
        )
    with progress(f"embedding {arm.label}") as report:
        shown = _unless_cached(report, encoder) if isinstance(encoder, CachedEncoder) else report
        rows = embed_items(list(arm.items()), encoder, arm.source, shown)
    return replace(arm, features=rows, encoder=encoder.name)


def _unless_cached(report: Report, encoder: CachedEncoder) -> Report:
    """Report progress only once something is embedded; what is in the cache takes no time."""
    latest: tuple[int, int] = (0, 0)
    is_embedding = False

    def begin() -> None:
        nonlocal is_embedding
        if not is_embedding:
            is_embedding = True
            report(*latest)

    def report_if_embedding(done: int, total: int) -> None:
        nonlocal latest
        latest = done, total
        if is_embedding:
            report(done, total)

    encoder.before_encoding = begin
    return report_if_embedding


def find_encoder(given: str, warn: Callable[[str], None] | None = None) -> Encoder:
    """Build the encoder that ``--encoder`` names, with the cache that runs use, and load its model.

    Parameters
    ----------
    given : str
        A kind of encoder such as ``pixels`` or ``dinov2``; ``KIND:MODEL``; a Python function as
        ``FILE.py:FUNCTION`` or ``MODULE:FUNCTION``; or a study file or run folder, whose encoder is used.
    warn : callable, optional
        Takes a message if the cache cannot be used. By default, it becomes a warning.
    """
    settings, folder = _settings(given)
    missing = [module for module in settings.needs if not is_installed(module)]
    if missing:
        raise InputError(missing_packages(missing, f"the encoder {given}", settings.extra))
    encoder = CachedEncoder(settings.build(folder), cache_folder(), warn)
    try:
        encoder.load()
    except EncodingError as error:
        raise InputError(f"--encoder {given}: {error}") from error
    return encoder


def _settings(given: str) -> tuple[EncoderSettings, Path]:
    """Return the settings of an encoder, and the folder that its paths are relative to."""
    path, here = Path(given), Path.cwd()
    if is_run(path):
        return _run_encoder(path)
    if path.suffix in (".yaml", ".yml") or os.path.isfile(path / "study.yaml"):
        file = path if path.suffix in (".yaml", ".yml") else path / "study.yaml"
        return _study_encoder(read_study(file), file), file.resolve().parent
    name, _, rest = given.partition(":")
    kinds = {kind_of(each): each for each in encoder_kinds()}
    if name in kinds and name not in NOT_NAMED:
        return _named(kinds[name], name, rest), here
    file_name, _, function = given.rpartition(":")
    if file_name.endswith(".py"):
        file = Path(file_name)
        return _function(f"{file.stem}:{function}", given), file.resolve().parent
    if ":" in given:
        return _function(given, given), here
    names = [kind for kind in kinds if kind not in NOT_NAMED]
    choices = f"pass {listed(names, 'or')}, a function as FILE.py:FUNCTION, or a study file"
    raise InputError(f"--encoder is {given!r}; {did_you_mean(given, names, choices)}")


def _named(settings: type[EncoderSettings], kind: str, model: str) -> EncoderSettings:
    key = next((key for key in ("model", "path") if key in settings.model_fields), None)
    model = model or DEFAULT_MODELS.get(kind, "")
    if model and key is None:
        raise InputError(f"the encoder {kind} has no model to choose; pass --encoder {kind}.")
    written: dict[str, Any] = {"kind": kind, **({key: model} if model and key else {})}
    try:
        return settings.model_validate(written)
    except ValidationError as error:
        fields = listed(".".join(map(str, each["loc"])) for each in error.errors())
        example = f"{kind}:{key.upper()}, or " if key and not model else ""
        raise InputError(
            f"the encoder {kind} needs a valid {fields}; pass --encoder {example}a study file that "
            "sets it."
        ) from error


def _function(name: str, given: str) -> EncoderSettings:
    if not re.fullmatch(FUNCTION_NAME, name):
        raise InputError(
            f"--encoder is {given!r}; pass a function as FILE.py:FUNCTION or MODULE:FUNCTION."
        )
    return CallableSettings.model_validate({"kind": "callable", "function": name})


def _study_encoder(study: Study, where: Path) -> EncoderSettings:
    if study.encoder is None:
        raise InputError(f"{where} has no encoder; add one, or pass --encoder with another.")
    return study.encoder


def _run_encoder(folder: Path) -> tuple[EncoderSettings, Path]:
    with JournalReader.open(folder) as journal:
        return _study_encoder(study_from(journal.meta("study")), folder), journal.study_folder()
