"""Check a study before it runs: build everything, ping the arms, draw one sample from each."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from genmix.core.text import describe_error, number, printable, quotable
from genmix.core.threads import in_thread
from genmix.data.prompts import Prompt
from genmix.data.samples import Sample
from genmix.encoders.base import Encoder, EncodingError
from genmix.encoders.callable import CallableSettings
from genmix.encoders.references import read_reference, texts_or_images
from genmix.engines.base import Engine
from genmix.engines.local import LocalEngine
from genmix.errors import GenmixError, InputError
from genmix.generators.base import Context, GenerationError, Generator
from genmix.journal.schema import Entry
from genmix.objectives import Batch, Objective
from genmix.offline.keeping import Rules
from genmix.runs import prepare
from genmix.runs.arm import ArmState, FinishedCall, Reply
from genmix.runs.execution import Options, open_engine_of
from genmix.runs.interrupts import Interrupts
from genmix.runs.retries import Retries
from genmix.runs.session import seed_of
from genmix.runs.spending.estimate import Estimate, estimate
from genmix.runs.spending.supply import check_supply
from genmix.selector.prompts import prompt_columns
from genmix.study.components import (
    make_objective,
    make_policy,
    synthetic_reference,
    uses_pairs,
)
from genmix.study.study import Study

SHOWN = 60
"""Maximum number of characters of text to show for a sample in the table."""


@dataclass
class ArmCheck:
    """The result of checking one arm."""

    arm: str
    kind: str
    problem: str | None = None
    seconds: float | None = None
    cost: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    sample: str | None = None
    """The start of the text, the size of the image, or the dimension of the vector."""
    dimension: int | None = None
    """The dimension of the embedding."""


@dataclass
class CheckReport:
    """The result of checking a study."""

    study: str
    arms: list[ArmCheck]
    drawn: bool
    encoder: str | None = None
    others: list[str] = field(default_factory=list)
    """Problems that are not specific to one arm."""
    keep: str | None = None
    """Which samples the run keeps; None if it keeps all."""
    estimate: Estimate | None = None
    """The expected cost and time; None if an arm could not be built."""

    @property
    def problems(self) -> list[str]:
        """All problems, one sentence each; empty if the study can run."""
        return [f"arm {a.arm!r}: {a.problem}" for a in self.arms if a.problem] + self.others

    def as_dict(self) -> dict[str, Any]:
        return {
            "study": self.study,
            "encoder": self.encoder,
            "keep": self.keep,
            "arms": [asdict(arm) for arm in self.arms],
            "estimate": None if self.estimate is None else self.estimate.as_dict(),
            "problems": self.problems,
        }


def check_study(study: str | Path | dict[str, Any], draw: bool = True) -> CheckReport:
    """Validate and build a study; with ``draw``, also generate and embed one sample per arm."""
    plan = prepare.Plan.of(study)
    arms = [ArmCheck(label, getattr(s, "kind", "")) for label, s in plan.study.arms.items()]
    name = plan.study.name if isinstance(study, dict) else str(study)
    keep = plan.study.keep
    report = CheckReport(
        name, arms, draw, keep=None if keep is None else str(Rules(**keep.model_dump()))
    )
    check = _Check(plan.study, plan.base, report, plan.prompts)
    with open_engine_of(plan.study, Options()) as engine:
        check.build(engine)
        Interrupts().run(check.run(draw))
    return check.report


@dataclass
class _Check:
    study: Study
    folder: Path
    report: CheckReport
    prompts: Sequence[Prompt] = ()
    generators: dict[str, Generator] = field(default_factory=dict)
    encoder: Encoder | None = None
    prompt_embeddings: Any = None
    """One row per prompt; None if the study does not use them, or nothing is drawn."""
    drawn: dict[str, Sample] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=dict)
    """Embeddings of the drawn samples."""
    references: dict[str, Any] = field(default_factory=dict)
    """Features that were read, by their paths."""

    # -- building --------------------------------------------------------------------------------

    def build(self, engine: Engine) -> None:
        texts = [prompt.text for prompt in self.prompts]
        for arm in self.report.arms:
            context = Context(self.folder, self.study.seed, arm.arm, texts)
            try:
                self.generators[arm.arm] = engine.generator(self.study.arms[arm.arm], context)
            except Exception as error:  # a problem in one arm must not hide those in others
                arm.problem = _sentence(error)
        try:
            prepare.check_packages(self.study)
            self.encoder = prepare.make_encoder(self.study, self.folder, _ignore, engine)
            self.report.encoder = None if self.encoder is None else self.encoder.name
            if isinstance(engine, LocalEngine):  # else only the workers need the functions
                self._load_functions()
        except GenmixError as error:
            self.report.others.append(str(error))
        if len(self.generators) == len(self.study.arms):
            try:
                check_supply(self.study, self.generators)
            except InputError as error:
                self.report.others.append(str(error))

    def _load_functions(self) -> None:
        """Import the functions that embed, as was done for the arms; models are loaded only to draw."""
        prompts = None if self.study.prompts is None else self.study.prompts.encoder
        for settings in (self.study.encoder, prompts):
            if isinstance(settings, CallableSettings):
                settings.build(self.folder).load()

    # -- pinging and drawing ---------------------------------------------------------------------

    async def run(self, draw: bool) -> None:
        try:
            if draw and not self.report.others:
                await in_thread(self._load_encoder)
                await in_thread(self._embed_prompts)
            self._check_embeddings()
            draw = draw and not self.report.others  # pay for samples only if the rest is correct
            built = [arm for arm in self.report.arms if arm.arm in self.generators]
            await asyncio.gather(*(self._try_arm(arm, draw) for arm in built))
            for arm in built:
                if arm.arm in self.drawn:
                    await self._embed_in_time(arm)
            if self.rows:
                self._check_embeddings()
            if len(self.generators) == len(self.study.arms):
                self.report.estimate = self._estimate()
        finally:
            await prepare.close_all(self.generators, self.encoder)

    def _estimate(self) -> Estimate:
        drawn = [arm for arm in self.report.arms if arm.arm in self.drawn]
        costs = {arm.arm: arm.cost for arm in drawn}
        seconds = {arm.arm: arm.seconds for arm in drawn if arm.seconds is not None}
        return estimate(self.study, self.generators, costs, seconds)

    async def _try_arm(self, arm: ArmCheck, draw: bool) -> None:
        generator = self.generators[arm.arm]
        timeout = self.study.retries.timeout
        try:
            async with asyncio.timeout(timeout):
                await generator.ping()
        except TimeoutError:
            arm.problem = f"no answer within {timeout:g} seconds."
        except Exception as error:
            arm.problem = _sentence(error)
        if draw and arm.problem is None:
            await self._draw(arm, generator)

    async def _draw(self, arm: ArmCheck, generator: Generator) -> None:
        """Draw the sample that a run would draw first from the arm."""
        seed, prompt = seed_of(self.study.seed, arm.arm, 0), next(iter(self.prompts), None)
        entry = Entry(0, arm.arm, 0, seed, 1.0, 1.0, prompt=prompt)
        state = ArmState(arm.arm, generator, 1, 1, Retries(self.study.retries))
        started = time.perf_counter()
        events: list[Reply | FinishedCall] = []
        await state.call([entry], events.append)
        [outcome] = [event.outcome for event in events if isinstance(event, Reply)]
        arm.seconds = time.perf_counter() - started
        arm.cost = outcome.cost
        arm.input_tokens, arm.output_tokens = outcome.input_tokens, outcome.output_tokens
        if isinstance(outcome, GenerationError):
            arm.problem = str(outcome)
            return
        try:
            arm.sample = described(outcome)
        except InputError as error:
            arm.problem = str(error)
        else:
            self.drawn[arm.arm] = outcome

    def _load_encoder(self) -> None:
        try:
            if self.encoder is not None:
                self.encoder.load()
        except Exception as error:  # an encoder may be user code
            self.report.others.append(_sentence(error, "the encoder"))

    def _embed_prompts(self) -> None:
        """Embed the first prompt, which every arm answers."""
        plan = prepare.Plan(self.study, self.folder, prompts=self.prompts[:1])
        try:
            self.prompt_embeddings = prepare.embedded_prompts(plan, self.encoder, _ignore)
        except Exception as error:  # an encoder may be user code
            self.report.others.append(_sentence(error, "the encoder of the prompts"))

    async def _embed_in_time(self, arm: ArmCheck) -> None:
        limit = None if self.study.encoder is None else self.study.encoder.time_limit(1)
        try:
            async with asyncio.timeout(limit):
                await in_thread(lambda: self._embed(arm))
        except TimeoutError:
            arm.problem = f"the encoder did not finish within {limit:g} seconds."

    def _embed(self, arm: ArmCheck) -> None:
        try:
            row = self._row(self.drawn[arm.arm])
            arm.dimension = int(row.shape[1])
        except Exception as error:  # an encoder may be user code
            arm.problem = _sentence(error, "the encoder")
        else:
            self.rows[arm.arm] = row

    def _row(self, sample: Sample) -> Any:
        if sample.vector is not None:
            return np.asarray(sample.vector)[None, :]
        if self.encoder is None:
            raise InputError("returned text or an image, but the study has no encoder; add one.")
        return np.asarray(self.encoder.encode([sample]))

    # -- embeddings ------------------------------------------------------------------------------

    def _check_embeddings(self) -> None:
        """Check that the embeddings match each other, the reference and the objective."""
        found: dict[int, str] = {}
        for arm in self.report.arms:
            if arm.dimension is not None:
                found.setdefault(arm.dimension, arm.arm)
        if len(found) > 1:
            (d, first), (other, second) = list(found.items())[:2]
            self.report.others.append(
                f"arm {first!r} has {d} dimensions, but arm {second!r} has {other}; embed all arms with "
                "the same encoder."
            )
            return
        dimension = next(iter(found), None if self.encoder is None else self.encoder.dimension)
        if uses_pairs(self.study) and self.prompt_embeddings is None:
            return  # no prompt was embedded
        try:
            columns = 0 if self.prompt_embeddings is None else self.prompt_embeddings.shape[1]
            objective = make_objective(
                self.study, lambda path: self._reference(path, dimension), columns
            )
            self._check_dimension(objective, dimension)
        except GenmixError as error:
            self.report.others.append(str(error))
            return
        for arm in self.report.arms:
            if arm.arm in self.rows:
                self._check_sample(arm, objective)

    def _reference(self, path: str, dimension: int | None) -> Any:
        """Read a feature file; use synthetic samples for texts and images, which take long to embed."""
        if texts_or_images(path, self.folder) is not None:
            return synthetic_reference(self.study.objective, dimension or 1)
        if path not in self.references:
            self.references[path] = read_reference(path, self.folder, self.encoder, _ignore)
        return self.references[path]

    def _check_dimension(self, objective: Objective, dimension: int | None) -> None:
        prepare.check_dimension(objective, self.encoder)
        if None not in (dimension, objective.dimension) and dimension != objective.dimension:
            raise InputError(
                f"the samples have {dimension} dimensions, but the reference has "
                f"{objective.dimension}; embed both with the same encoder."
            )

    def _check_sample(self, arm: ArmCheck, objective: Objective) -> None:
        sample = self.drawn[arm.arm]
        row = self.rows[arm.arm]
        if prompt_columns(objective) and self.prompt_embeddings is not None:
            row = np.hstack([self.prompt_embeddings[:1], row])
        batch = Batch(row, _column(sample.quality), _column(sample.cost))
        try:
            objective.check(batch, "its sample")
            policy = make_policy(self.study)
            if getattr(policy, "needs_quality", False) and sample.quality is None:
                name = self.study.policy.kind
                raise InputError(
                    f"its sample has no quality, but {name} needs one; return a quality."
                )
        except InputError as error:
            arm.problem = str(error)


def _ignore(line: str) -> None:
    """Discard a progress message."""


def _sentence(error: Exception, subject: str = "it") -> str:
    if isinstance(error, GenmixError | GenerationError | EncodingError):
        return str(error)
    return f"{subject} failed ({describe_error(error)}); fix it."


def _column(value: float | None) -> Any:
    return None if value is None else np.array([value])


def described(sample: Sample) -> str:
    """Return a short description of a sample."""
    if sample.text is not None:
        return quotable(sample.text, most=SHOWN)
    if sample.image is not None:
        width, height = _size(sample.image)
        return f"image, {width} × {height}"
    return f"vector of {np.size(sample.vector)}"


def _size(png: bytes) -> tuple[int, int]:
    """Return the width and height from the header of a PNG."""
    if png[12:16] != b"IHDR" or len(png) < 24:
        raise InputError(
            f"returned {len(png)} bytes that are not a PNG image; return a complete PNG."
        )
    width, height = struct.unpack(">II", png[16:24])
    return width, height


# -- printing ----------------------------------------------------------------------------------------


def print_checks(report: CheckReport) -> None:
    console = Console()
    console.print(_table(report))
    for line in _lines(report):
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _table(report: CheckReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    drawn = ("seconds", "cost", "tokens", "dimension", "sample") if report.drawn else ()
    for column in ("arm", "kind", "", *drawn):
        right = column in ("seconds", "cost", "tokens", "dimension")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for arm in report.arms:
        state = Text("failed", "red") if arm.problem else Text("ok", "green")
        numbers = (_shown(arm.seconds, ".2f"), number(arm.cost), _tokens(arm))
        more = (*numbers, _shown(arm.dimension, "d"), arm.sample or "–") if report.drawn else ()
        table.add_row(Text(printable(arm.arm)), arm.kind, state, *map(Text, more))
    return table


def _lines(report: CheckReport) -> list[str]:
    found = [] if report.encoder is None else [f"encoder: {report.encoder}"]
    if report.estimate is not None:
        found += [*report.estimate.lines, *report.estimate.warnings]
    if report.keep is not None:
        found.append(f"When it ends, the run keeps {report.keep}.")
    if not report.problems:
        verdict = "is ready to run" if report.drawn else "is valid; no sample was drawn"
        return [*found, f"{report.study} {verdict}."]
    return [*found, *report.problems]


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _tokens(arm: ArmCheck) -> str:
    if arm.input_tokens is None and arm.output_tokens is None:
        return "–"
    return f"{arm.input_tokens or 0}+{arm.output_tokens or 0}"
