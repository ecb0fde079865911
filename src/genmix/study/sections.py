"""The sections of a study: budget, retries, stopping rules, prompts and limits on weights."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from genmix.data.prompts import columns_in
from genmix.encoders import encoder_kinds
from genmix.encoders.base import EncoderSettings

if TYPE_CHECKING:
    Encoder = EncoderSettings
else:
    Encoder = Annotated[Union[encoder_kinds()], Field(discriminator="kind")]  # noqa: UP007

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
DURATION = re.compile(r"([0-9.]+h)? ?([0-9.]+m)? ?([0-9.]+s)?")


def parse_seconds(value: Any) -> Any:
    """Convert a duration such as 90, 90s, 30m or 1h 30m to seconds."""
    if not isinstance(value, str):
        return value
    found = DURATION.fullmatch(value.strip())
    parts = [part for part in (found.groups() if found else ()) if part]
    try:
        return sum(float(part[:-1]) * UNITS[part[-1]] for part in parts) if parts else float(value)
    except ValueError:
        raise ValueError("use seconds, or a number with s, m or h, e.g. 30m") from None


def check_label(text: str) -> str:
    """Validate an arm's label, which must fit on one line of output."""
    if not text.strip():
        raise ValueError("the label is empty; write a name")
    if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text):
        raise ValueError("the label contains a control character; remove it")
    if "\ufffe" in text or "\uffff" in text:
        raise ValueError("the label contains U+FFFE or U+FFFF, which are not characters; remove it")
    if len(text) > 100:
        raise ValueError(f"the label has {len(text)} characters; use at most 100")
    return text


def check_name(text: str) -> str:
    """Validate a study's name, which becomes the name of a folder."""
    if not re.fullmatch(r"\w[\w .-]{0,99}", text) or text.endswith((" ", ".")):
        raise ValueError("use at most 100 letters, digits, '-', '_' and '.'")
    return text


SECONDS_SCHEMA = WithJsonSchema(
    {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[0-9.]+ *[hms]?"}]}
)
Seconds = Annotated[float, Field(gt=0), BeforeValidator(parse_seconds), SECONDS_SCHEMA]
Wait = Annotated[float, Field(ge=0), BeforeValidator(parse_seconds), SECONDS_SCHEMA]
Label = Annotated[str, AfterValidator(check_label)]
Name = Annotated[str, AfterValidator(check_name)]


class Section(BaseModel):
    """Base class for the sections of a study; rejects unknown keys and infinite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Budget(Section):
    """Limits on a run, which ends as soon as it reaches any of them."""

    samples: int | None = Field(None, ge=1, description="Exact number of samples.")
    cost: float | None = Field(
        None, ge=0, description="Maximum total cost of the samples, never exceeded."
    )
    time: Seconds | None = Field(
        None,
        description="Time after which no new samples are started: seconds, or e.g. 90s or 30m.",
    )

    @property
    def is_empty(self) -> bool:
        return self.samples is None and self.cost is None and self.time is None


class Retries(Section):
    """How failures are handled. Times are in seconds, or written as 90s, 30m or 2h."""

    attempts: int = Field(5, ge=1, description="Maximum number of attempts per sample.")
    first_wait: Wait = Field(
        1.0, description="Wait before the second attempt; it doubles with each later attempt."
    )
    longest_wait: Wait = Field(60.0, description="Longest wait between two attempts.")
    suspend_after: int = Field(
        3, ge=1, description="Number of consecutive failed samples after which an arm is suspended."
    )
    probe_after: Seconds = Field(60.0, description="Time until a suspended arm is tried again.")
    timeout: Seconds = Field(300.0, description="Timeout for a single call to an arm.")
    give_up: Seconds = Field(
        600.0,
        description="The run stops after this long without a sample while all arms are suspended.",
    )

    @model_validator(mode="after")
    def _waits_grow(self) -> Retries:
        if self.longest_wait < self.first_wait:
            raise ValueError(
                f"longest_wait ({self.longest_wait:g}) is below first_wait ({self.first_wait:g}); "
                "increase it"
            )
        return self


class StopWhen(Section):
    """Conditions for stopping before the budget is spent; all of them must hold for ``over`` samples."""

    weights_within: float | None = Field(
        None, gt=0, le=1, description="No arm's weight has changed by more than this."
    )
    score_within: float | None = Field(
        None,
        gt=0,
        description="The samples' score is within this relative distance of the mixture's score.",
    )
    keep_gain_below: float | None = Field(
        None,
        gt=0,
        description="Another ``over`` samples are predicted to improve the score of the kept samples by "
        "less than this.",
    )
    over: int = Field(
        100, ge=1, description="Number of samples over which the conditions must hold."
    )

    @model_validator(mode="after")
    def _has_a_condition(self) -> StopWhen:
        conditions = (self.weights_within, self.score_within, self.keep_gain_below)
        if conditions == (None, None, None):
            raise ValueError(
                "no condition is set; set weights_within, score_within or keep_gain_below"
            )
        return self


class Keep(Section):
    """How many of the run's samples to keep: those that score best together under the objective."""

    samples: int | None = Field(None, ge=1, description="Number of samples to keep.")
    share: float | None = Field(
        None, gt=0, le=1, description="Share of the samples to keep, instead of their number."
    )
    min_quality: float | None = Field(
        None, description="Only samples of at least this quality are kept."
    )

    @model_validator(mode="after")
    def _has_a_size(self) -> Keep:
        if (self.samples is None) == (self.share is None):
            raise ValueError(
                "set exactly one of samples (how many to keep) and share (what fraction to keep)"
            )
        return self


class Prompts(Section):
    """The prompts that the arms answer, from a table with one row per prompt."""

    file: str = Field(
        min_length=1,
        description="A .jsonl, .csv, .parquet or .txt file, or the folder of a Hugging Face data set.",
    )
    column: str | None = Field(
        None, description="The column with the prompts; by default, prompt or text."
    )
    template: str | None = Field(
        None, description="Text with column names in braces, instead of a column."
    )
    group: str | None = Field(
        None, description="The column with the groups; each group gets its own mixture."
    )
    groups: int | None = Field(
        None, ge=2, description="Number of groups to form by similarity, instead of a column."
    )
    order: Literal["shuffle", "file"] = Field(
        "shuffle",
        description="Whether prompts are asked in random order or in the order of the file.",
    )
    repeat: int = Field(1, ge=1, description="Number of answers per prompt.")
    encoder: Encoder | None = Field(
        None, description="The model that embeds the prompts; by default, the encoder of the study."
    )
    embedding: str | None = Field(
        None,
        min_length=1,
        description="The column with the embeddings of the prompts, instead of an encoder.",
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> Prompts:
        if self.column is not None and self.template is not None:
            raise ValueError("use only one of column and template")
        if self.group is not None and self.groups is not None:
            raise ValueError("use only one of group and groups")
        if self.encoder is not None and self.embedding is not None:
            raise ValueError("use only one of encoder and embedding")
        if self.template is not None and not columns_in(self.template):
            raise ValueError("the template names no column; write one in braces, e.g. {product}")
        return self


Share = Annotated[float, Field(ge=0, le=1)]


class WeightLimits(Section):
    """Bounds on the weights of some arms, between 0 and 1."""

    at_least: dict[Label, Share] = Field({}, description="Smallest weights, by arm.")
    at_most: dict[Label, Share] = Field({}, description="Largest weights, by arm.")
