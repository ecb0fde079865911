"""The study: what a person wrote, validated, with every mistake in one go and in plain words."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path as File
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from genmix.encoders import ENCODER_KINDS
from genmix.encoders.base import EncoderSettings
from genmix.generators import ARM_KINDS
from genmix.generators.base import ArmSettings
from genmix.study.problems import Faults, Path, StudyError, shown, subject
from genmix.study.consistency import check_whole
from genmix.study.schema import schema_of
from genmix.study.secrets import find_secrets
from genmix.study.parsing import plain_data, read_source
from genmix.study.components import Named, Term, read_policy, read_terms
from genmix.study.messages import add_errors, with_numbers
from genmix.study.shorthand import Variants

__all__ = ["Study", "StudyError", "json_schema", "read_study", "study_from"]

if TYPE_CHECKING:
    Arm = ArmSettings
    Encoder = EncoderSettings
else:
    Arm = Annotated[Union[ARM_KINDS], Field(discriminator="kind")]  # noqa: UP007
    Encoder = Annotated[Union[ENCODER_KINDS], Field(discriminator="kind")]  # noqa: UP007

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
DURATION = re.compile(r"([0-9.]+h)? ?([0-9.]+m)? ?([0-9.]+s)?")


def seconds(value: Any) -> Any:
    """90, 90s, 30m, 1h 30m."""
    if not isinstance(value, str):
        return value
    found = DURATION.fullmatch(value.strip())
    parts = [part for part in (found.groups() if found else ()) if part]
    try:
        return sum(float(part[:-1]) * UNITS[part[-1]] for part in parts) if parts else float(value)
    except ValueError:
        raise ValueError("give seconds, or a number with s, m or h, such as 30m") from None


def label(text: str) -> str:
    """An arm's label: it is printed, so it may not break a line."""
    if not text.strip():
        raise ValueError("an arm has an empty label: give it a name")
    if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text):
        raise ValueError("the label holds a control character: leave it out")
    if "\ufffe" in text or "\uffff" in text:
        raise ValueError("the label holds U+FFFE or U+FFFF, which is no character: leave it out")
    if len(text) > 100:
        raise ValueError(f"the label has {len(text)} characters: use at most 100")
    return text


def name(text: str) -> str:
    """A study's name: it becomes the name of a folder."""
    if not re.fullmatch(r"\w[\w .-]{0,99}", text) or text.endswith((" ", ".")):
        raise ValueError("give letters, digits, '-', '_' and '.', at most 100 of them")
    return text


WRITTEN_SECONDS = WithJsonSchema(
    {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[0-9.]+ *[hms]?"}]}
)
Seconds = Annotated[float, Field(gt=0), BeforeValidator(seconds), WRITTEN_SECONDS]
Wait = Annotated[float, Field(ge=0), BeforeValidator(seconds), WRITTEN_SECONDS]
Label = Annotated[str, AfterValidator(label)]
Name = Annotated[str, AfterValidator(name)]


class Part(BaseModel):
    """A part of a study: no unknown keys, nothing that changes, no infinities."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Budget(Part):
    """What may be spent; the run ends with the first that is."""

    samples: int | None = Field(None, ge=1, description="Samples, exactly.")
    cost: float | None = Field(None, ge=0, description="Cost of all samples, never exceeded.")
    time: Seconds | None = Field(
        None, description="Running time, after which no sample begins: seconds, 90s, 30m, 2h."
    )

    @model_validator(mode="after")
    def _is_limited(self) -> Budget:
        if self.samples is None and self.cost is None and self.time is None:
            raise ValueError("there is no limit in it: give samples, cost or time")
        return self


class Retries(Part):
    """How failures are met; times are seconds, or written as 90s, 30m, 2h."""

    attempts: int = Field(5, ge=1, description="Attempts at one sample.")
    first_wait: Wait = Field(1.0, description="Wait before the second; it doubles then.")
    longest_wait: Wait = Field(60.0, description="No wait is longer.")
    suspend_after: int = Field(
        3, ge=1, description="Samples in a row given up before the arm is suspended."
    )
    probe_after: Seconds = Field(60.0, description="When a suspended arm is tried again.")
    timeout: Seconds = Field(300.0, description="Wait for one call of an arm.")
    give_up: Seconds = Field(
        600.0, description="When a run stops that got no sample, all arms being suspended."
    )

    @model_validator(mode="after")
    def _waits_grow(self) -> Retries:
        if self.longest_wait < self.first_wait:
            raise ValueError(
                f"longest_wait ({self.longest_wait:g}) is below first_wait ({self.first_wait:g}): "
                "raise it"
            )
        return self


class StopWhen(Part):
    """When to stop before the budget is spent: if all that is given has held for a while."""

    weights_within: float | None = Field(
        None, gt=0, le=1, description="No arm's weight has moved by more."
    )
    score_within: float | None = Field(
        None, gt=0, description="The samples' score is this near to the mixture's, relatively."
    )
    over: int = Field(100, ge=1, description="Samples over which it must have held.")

    @model_validator(mode="after")
    def _has_a_rule(self) -> StopWhen:
        if self.weights_within is None and self.score_within is None:
            raise ValueError("there is no rule in it: give weights_within or score_within")
        return self


class Study(Part):
    """A validated study; ``read_study`` and ``study_from`` make it."""

    name: Name = Field("study", description="Of the study, and of its run folder.")
    seed: int = Field(0, ge=0, description="Of everything random.")
    arms: dict[Label, Arm] = Field(
        min_length=1, description="The generators: a map from label to settings."
    )
    encoder: Encoder | None = Field(None, description="What turns samples into vectors.")
    objective: tuple[Term, ...] = Field(min_length=1, description="What to optimise.")
    reference: str | None = Field(
        None,
        min_length=1,
        description="What to compare with: features (.npy, .npz), texts (.jsonl, .txt), or a "
        "folder of images.",
    )
    policy: Named = Field(Named(name="mixture-greedy"), description="How the next arm is chosen.")
    budget: Budget = Field(description="What may be spent: samples, cost or time.")
    warm_start: int = Field(10, ge=1, description="Samples of every arm before the first solve.")
    draw: Literal["iid", "tracking"] = Field(
        "iid", description="Draw arms at random, or the one that lags its weight most."
    )
    resolve_growth: float = Field(
        0.01, ge=0, description="Growth of the samples before the next solve; 0: at every sample."
    )
    in_flight: int = Field(
        0,
        ge=1,
        description="Samples in flight over all arms; by default the largest concurrency × batch.",
    )
    retries: Retries = Field(
        default_factory=lambda: Retries.model_validate({}), description="How failures are met."
    )
    stop_when: StopWhen | None = Field(None, description="When to stop early.")

    @model_validator(mode="after")
    def _resolve(self) -> Study:
        if not self.in_flight:
            most = max(arm.concurrency * arm.batch for arm in self.arms.values())
            object.__setattr__(self, "in_flight", most)
        return self

    def plain(self) -> dict[str, Any]:
        """JSON values from which ``study_from`` makes an equal study."""
        found = self.model_dump(mode="json")
        found["objective"] = [term.plain() for term in self.objective]
        found["policy"] = self.policy.plain()
        return found


# -- reading -----------------------------------------------------------------------------------------


def read_study(path: str | os.PathLike[str]) -> Study:
    """The study in a YAML file; every mistake has its line."""
    source = read_source(path)
    faults = Faults()
    study = _read(source.data, faults, _name_of(File(path)))
    source.raise_by_line(faults)
    assert study is not None
    return study


def study_from(data: Mapping[str, Any]) -> Study:
    """The study in plain data, such as ``study.plain()``; every mistake has its path of keys."""
    if not isinstance(data, Mapping):
        raise StudyError([f"the study is {shown(data)}: give a map of keys and values."])
    faults = Faults()
    study = _read(data, faults, "study")
    faults.raise_by_path()
    assert study is not None
    return study


def _name_of(path: File) -> str:
    stem = re.sub(r"[^\w.-]+", "-", path.stem)[:100].strip("-.")
    return stem or "study"


def _read(written: Any, faults: Faults, default_name: str) -> Study | None:
    data = plain_data(written, faults)
    find_secrets(data, faults)
    study = _validated({"name": default_name, **data}, faults)
    if study is not None and not faults:
        check_whole(study, faults)
    return study


def _validated(data: dict[str, Any], faults: Faults) -> Study | None:
    """The study with its parts made from short forms, if they can be."""
    variants = Variants.of(data.get("arms"), faults)
    parts = {**data, "arms": variants.arms} if "arms" in data else dict(data)
    if "objective" in data:
        parts["objective"] = read_terms(data["objective"], faults) or (Term(name="vendi"),)
    if "policy" in data:
        parts["policy"] = read_policy(data["policy"], faults) or Named(name="uniform")

    def report(path: Path, words: str) -> None:
        here = variants.origin(path)
        faults.add(here, f"{subject(here)} {words}")

    parts = with_numbers(Study, parts, report)
    try:
        return Study.model_validate(parts)
    except ValidationError as error:
        add_errors(faults, error, Study, parts, variants.origin)
        return None


def json_schema() -> dict[str, Any]:
    """The JSON schema of what people write, for editors."""
    return schema_of(Study)
