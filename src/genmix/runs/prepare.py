"""Build what a run needs from a study, and find as many mistakes as possible before they cost money."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from genmix import __version__
from genmix.core.masking import mask, remember_environment
from genmix.core.optional import is_installed, missing_packages
from genmix.core.python_objects import PythonObject, objects_in
from genmix.core.streams import VERSION
from genmix.core.text import counted, listed
from genmix.core.user_functions import source_digest
from genmix.data.prompts import Prompt, prompt_shares, read_prompt_embeddings, read_prompts
from genmix.data.samples import Sample
from genmix.data.text_files import resolved
from genmix.encoders.base import Encoder, EncoderSettings, EncodingError
from genmix.encoders.cache import CachedEncoder, cache_folder
from genmix.encoders.prompt_groups import embed_prompts, grouped
from genmix.encoders.references import Note, read_reference
from genmix.engines import ENGINES
from genmix.engines.base import Engine
from genmix.engines.local import LocalEngine
from genmix.errors import InputError, StorageError
from genmix.generators.base import Context, GenerationError, Generator
from genmix.journal.reader import PROMPT_COLUMNS
from genmix.journal.schema import JOURNAL
from genmix.objectives import Objective
from genmix.selector.prompts import prompt_columns
from genmix.selector.selector import Selector
from genmix.study.components import (
    make_objective,
    make_policy,
    uses_prompt_embeddings,
)
from genmix.study.edited_text import text_with
from genmix.study.parsing import parse_study_file, parse_study_text, study_file
from genmix.study.study import Study, study_from, study_in, valid_name, with_budget

T = TypeVar("T")

LOCAL = LocalEngine()


SOURCES = "sources"
"""The metadata of a journal that contains digests of the arms' source files."""


@dataclass(frozen=True)
class Plan:
    """A validated study and its origin."""

    study: Study
    base: Path
    """The folder that the study's paths are relative to."""
    source: str | None = None
    """The text of the study file, if there is one."""
    file: str | None = None
    """The name of the study file in ``base``."""
    prompts: Sequence[Prompt] = ()
    """The prompts that the arms answer, if the study has any."""
    notes: Sequence[str] = ()
    """What the user should know before the run starts."""

    @classmethod
    def of(
        cls,
        study: str | os.PathLike[str] | dict[str, Any] | Study,
        changes: Mapping[str, Any] | None = None,
        prompts: Sequence[Prompt] | None = None,
    ) -> Plan:
        """Validate a study; ``changes`` replace settings in a study file.

        ``prompts`` are those of the run that it continues. By default, they are read from their file.
        """
        found = cls._read(study, changes)
        return found.with_prompts(prompts)

    def with_prompts(self, prompts: Sequence[Prompt] | None = None) -> Plan:
        """Add the prompts, and end the run at the latest when each of them has its answers."""
        settings = self.study.prompts
        if settings is None:
            return self
        if prompts is None:
            path = resolved(settings.file, self.base)
            prompts = read_prompts(path, settings.column, settings.group, settings.template)
        study, most, notes = self.study, settings.repeat * len(prompts), []
        if study.budget.samples is not None and study.budget.samples > most:
            answers = f"{counted(len(prompts), 'prompt')} × {counted(settings.repeat, 'answer')}"
            notes.append(
                f"{answers} are {counted(most, 'sample')}, so the run ends there; raise prompts.repeat "
                "for more"
            )
        if study.budget.samples is None or notes:
            study = with_budget(study, {"samples": most})
        return replace(self, study=study, prompts=prompts, notes=notes)

    def with_engine(self, engine: str | None) -> Plan:
        """Replace the study's engine, unless it is None."""
        if engine is None or engine == self.study.engine:
            return self
        if engine not in ENGINES:
            raise InputError(f"the engine is {engine!r}; pass {listed(map(repr, ENGINES), 'or')}.")
        source = None if self.source is None else text_with(self.source, {"engine": engine})
        return replace(self, study=self.study.with_engine(engine), source=source)

    @classmethod
    def _read(
        cls,
        study: str | os.PathLike[str] | dict[str, Any] | Study,
        changes: Mapping[str, Any] | None,
    ) -> Plan:
        if isinstance(study, Study):
            return cls(study, Path.cwd())
        if isinstance(study, dict):
            return cls(study_from(study), Path.cwd())
        if (Path(study) / JOURNAL).exists():
            raise InputError(
                f"{study} is a run, not a study; continue it with `genmix resume {study}`, or pass a study."
            )
        path = study_file(study)
        file = parse_study_file(path)
        if changes:
            file = parse_study_text(file.name, text_with(file.text, changes))
        found, place = study_in(file, valid_name(path.stem)), path.resolve()
        return cls(found, place.parent, file.text.replace("\r\n", "\n"), place.name)


@dataclass(frozen=True)
class Start:
    """The settings of a selector that a study can change later, as they were when the run began."""

    arms: list[str]
    shares: dict[str, dict[str, float]]
    """``at_least`` and ``at_most``, by arm."""
    groups: dict[str, float] | None = None
    """The share of the prompts in each group; None without groups."""
    prompt_columns: int = 0
    """The dimension of the prompts' embeddings; 0 if the run does not use them."""

    @classmethod
    def of(cls, study: Study, prompts: Sequence[Prompt] = (), columns: int = 0) -> Start:
        return cls(list(study.arms), shares_of(study), prompt_shares(prompts), columns)


def shares_of(study: Study) -> dict[str, dict[str, float]]:
    """Return the smallest and largest weights that the study asks for."""
    limits = study.weights
    least, most = ({}, {}) if limits is None else (limits.at_least, limits.at_most)
    return {"at_least": least, "at_most": most}


@dataclass
class Parts:
    """The generators, the encoder and the selector of a study."""

    generators: dict[str, Generator]
    encoder: Encoder | None
    selector: Selector
    prompts: Sequence[Prompt] = ()
    """The prompts of the study with their groups."""
    prompt_embeddings: NDArray[Any] | None = None
    """One row per prompt, if a new run uses them."""

    @classmethod
    def build(
        cls,
        plan: Plan,
        note: Note,
        start: Start | None = None,
        engine: Engine = LOCAL,
    ) -> Parts:
        """Build everything; ``start`` is how the run began, if the study may have changed since."""
        study, folder, prompts = plan.study, plan.base, plan.prompts
        check_packages(study)
        generators = make_generators(study, folder, [prompt.text for prompt in prompts], engine)
        encoder = make_encoder(study, folder, note, engine)
        embeddings = None if start is not None else embedded_prompts(plan, encoder, note)
        if study.prompts is not None and study.prompts.groups and embeddings is not None:
            prompts = grouped(prompts, embeddings, study.prompts.groups, study.seed)
        if not uses_prompt_embeddings(study):
            embeddings = None  # they were only for the groups
        columns = 0 if embeddings is None else embeddings.shape[1]
        start = start or Start.of(study, prompts, columns)
        selector = make_selector(study, folder, encoder, note, start)
        return cls(generators, encoder, selector, prompts, embeddings)

    async def closing(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work``, then close the generators and the encoder."""
        try:
            return await work
        finally:
            await close_all(self.generators, self.encoder)


def embedded_prompts(plan: Plan, encoder: Encoder | None, note: Note) -> NDArray[Any] | None:
    """Return the embeddings of the prompts, one row each; None if the study does not use them.

    They are read from their column, or computed with the encoder of the prompts or else that of the study.
    """
    settings = plan.study.prompts
    if settings is None or not (settings.groups or uses_prompt_embeddings(plan.study)):
        return None
    if settings.embedding is not None:
        return read_prompt_embeddings(resolved(settings.file, plan.base), settings.embedding)
    note(f"embedding {counted(len(plan.prompts), 'prompt')}")
    own = built_encoder(settings.encoder, plan.base, note)
    with nullcontext() if own is None else closing(own):
        used = own or encoder
        assert used is not None  # because the study is consistent
        return embed_prompts(plan.prompts, used)


def check_packages(study: Study) -> None:
    """Raise an InputError that names all missing packages that the study needs on this machine."""
    prompts = None if study.prompts is None else study.prompts.encoder
    parts: list[Any] = [prompts, make_policy(study)]
    if study.engine == "local":
        parts = [*study.arms.values(), study.encoder, *parts]
    needed = dict.fromkeys(module for part in parts for module in getattr(part, "needs", ()))
    missing = [module for module in needed if not is_installed(module)]
    if missing:
        raise InputError(missing_packages(missing, "the study"))


def metadata(plan: Plan, folder: Path, parts: Parts) -> dict[str, Any]:
    """Return what the journal of a new run records about it."""
    columns = prompt_columns(parts.selector.objective)
    return {
        "run": uuid.uuid4().hex,
        "genmix": __version__,
        "study": plan.study.plain(),
        "source": plan.source,
        "folder": str(plan.base.resolve()),
        "home": str(folder.resolve()),
        "file": plan.file,
        "encoder": None if parts.encoder is None else parts.encoder.name,
        "streams": VERSION,
        SOURCES: source_digests(plan),
        **({PROMPT_COLUMNS: columns} if columns else {}),
    }


def source_digests(plan: Plan) -> dict[str, str]:
    """Return digests of the files that contain the functions of arms, by arm."""
    functions = {label: getattr(arm, "function", None) for label, arm in plan.study.arms.items()}
    found = {
        label: source_digest(name, plan.base)
        for label, name in functions.items()
        if isinstance(name, str) and not isinstance(name, PythonObject)
    }
    return {label: digest for label, digest in found.items() if digest is not None}


def make_generators(
    study: Study, folder: Path, prompts: Sequence[str] = (), engine: Engine = LOCAL
) -> dict[str, Generator]:
    """Build the generator of every arm; the message of an error has one line per arm that fails."""
    remember_environment()
    found, failed, messages = {}, list[Exception](), list[str]()
    for label, settings in study.arms.items():
        try:
            found[label] = engine.generator(settings, Context(folder, study.seed, label, prompts))
        except (InputError, StorageError) as error:
            failed.append(error)
            messages.append(f"arm {label!r}: {mask(str(error))}")
    if failed:
        kind = InputError if isinstance(failed[0], InputError) else StorageError
        raise kind("\n".join(messages)) from failed[0]
    return found


def make_encoder(
    study: Study, folder: Path, note: Note = lambda line: None, engine: Engine = LOCAL
) -> Encoder | None:
    """Build the study's encoder with a cache, so that nothing is embedded twice, even across runs."""
    return built_encoder(study.encoder, folder, note, engine)


def built_encoder(
    settings: EncoderSettings | None, folder: Path, note: Note, engine: Engine = LOCAL
) -> Encoder | None:
    """Build an encoder with a cache.

    A function that was passed in Python has no cache: two functions with the same source code can compute
    different things, e.g. with different models.
    """
    if settings is None:
        return None
    encoder = engine.encoder(settings, folder)
    if any(objects_in(settings)):
        return encoder
    return CachedEncoder(encoder, cache_folder(), note)


def make_selector(
    study: Study,
    folder: Path,
    encoder: Encoder | None,
    note: Note,
    start: Start | None = None,
) -> Selector:
    """Build a new selector; this reads or embeds the reference."""
    start = start or Start.of(study)
    objective = make_objective(
        study, lambda path: read_reference(path, folder, encoder, note), start.prompt_columns
    )
    return Selector(
        start.arms,
        objective,
        make_policy(study),
        warm_start=study.warm_start,
        seed=study.seed,
        draw=study.draw,
        resolve_growth=study.resolve_growth,
        encoder=None if encoder is None else encoder.name,
        at_least=start.shares["at_least"],
        at_most=start.shares["at_most"],
        groups=start.groups,
    )


def load_encoder(objective: Objective, encoder: Encoder | None, note: Note) -> None:
    """Find an unusable model or a wrong dimension before any sample is paid for."""
    if encoder is not None:
        note(f"loading the encoder {encoder.name}")
        encoder.load()
        if encoder.dimension is None and objective.dimension is not None:
            with suppress(
                EncodingError
            ):  # if it needs images, the first sample reveals the dimension
                encoder.encode([Sample(text="a word to find the dimension")])
    check_dimension(objective, encoder)


def check_dimension(objective: Objective, encoder: Encoder | None) -> None:
    if encoder is None or encoder.dimension is None or objective.dimension is None:
        return
    if encoder.dimension != objective.dimension:
        raise InputError(
            f"the encoder {encoder.name} returns {encoder.dimension} dimensions, but the reference has "
            f"{objective.dimension}; embed the reference with the same encoder."
        )


async def ping_all(generators: Mapping[str, Generator]) -> None:
    """Test every arm as far as is possible at no cost."""
    outcomes = await asyncio.gather(
        *(generator.ping() for generator in generators.values()), return_exceptions=True
    )
    for label, outcome in zip(generators, outcomes, strict=True):
        if isinstance(outcome, GenerationError):
            raise InputError(f"arm {label!r}: {mask(str(outcome))}") from None
        if isinstance(outcome, BaseException):
            raise outcome


async def close_all(generators: Mapping[str, Generator], encoder: Encoder | None) -> None:
    closing: list[Any] = [generator.close() for generator in generators.values()]
    await asyncio.gather(*closing, return_exceptions=True)
    if encoder is not None:
        encoder.close()
