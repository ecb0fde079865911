"""The Study class, which contains all settings for a run, and functions that create a study."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union

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

import genmix as gx
from genmix.core.python_objects import OR_OBJECT, missing_in
from genmix.data.prompts import columns_in
from genmix.encoders import encoder_kinds
from genmix.encoders.base import EncoderSettings
from genmix.generators import arm_kinds
from genmix.generators.base import ArmSettings
from genmix.generators.prompts import HAS_PROMPTS
from genmix.study.components import (
    OBJECTIVES,
    POLICIES,
    ObjectiveSettings,
    PolicySettings,
    one_of,
    with_draws,
)
from genmix.study.consistency import check_consistency
from genmix.study.messages import add_errors, with_numbers
from genmix.study.objects import written
from genmix.study.parsing import StudyFile, Written, parse_study_file, plain_data, study_file
from genmix.study.problems import KeyPath, Problems, StudyError, shown, subject
from genmix.study.schema import schema_of
from genmix.study.secrets import find_secrets
from genmix.study.shorthand import Expansion

__all__ = [
    "Study",
    "StudyError",
    "json_schema",
    "policy_from",
    "read_study",
    "study_from",
    "with_budget",
]

if TYPE_CHECKING:
    Arm = ArmSettings
    Encoder = EncoderSettings
    Objective = ObjectiveSettings
    Policy = PolicySettings
else:
    Arm = Annotated[Union[arm_kinds()], Field(discriminator="kind")]  # noqa: UP007
    Encoder = Annotated[Union[encoder_kinds()], Field(discriminator="kind")]  # noqa: UP007
    Objective = one_of(OBJECTIVES.values())
    Policy = one_of(POLICIES.values())

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


S = TypeVar("S", bound=Section)


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
        description="Another ``over`` samples are predicted to improve the score of the kept ones by less "
        "than this.",
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
            raise ValueError("set either samples or share, the number or the share to keep")
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

    @model_validator(mode="after")
    def _is_consistent(self) -> Prompts:
        if self.column is not None and self.template is not None:
            raise ValueError("use only one of column and template")
        if self.group is not None and self.groups is not None:
            raise ValueError("use only one of group and groups")
        if self.template is not None and not columns_in(self.template):
            raise ValueError("the template names no column; write one in braces, e.g. {product}")
        return self


Share = Annotated[float, Field(ge=0, le=1)]


class WeightLimits(Section):
    """Bounds on the weights of some arms, between 0 and 1."""

    at_least: dict[Label, Share] = Field({}, description="Smallest weights, by arm.")
    at_most: dict[Label, Share] = Field({}, description="Largest weights, by arm.")


class Study(Section):
    """A validated study, created by ``read_study`` or ``study_from``."""

    name: Name = Field("study", description="Name of the study and of its run folder.")
    seed: int = Field(0, ge=0, description="Seed for all random numbers.")
    arms: dict[Label, Arm] = Field(
        min_length=1, description="The generators: a mapping from labels to settings."
    )
    prompts: Prompts | None = Field(
        None, description="Prompts that all arms answer: file, column or template, group, repeat."
    )
    encoder: Encoder | None = Field(None, description="The model that turns samples into vectors.")
    objective: tuple[Objective, ...] = Field(description="What to optimize.")
    reference: Annotated[Annotated[str, Field(min_length=1)] | None, OR_OBJECT] = Field(
        None,
        description="Real samples to compare with: features (.npy, .npz), texts (.jsonl, .txt) or a "
        "folder of images.",
    )
    policy: Policy = Field(
        default_factory=lambda: POLICIES["mixture-ucbv"](kind="mixture-ucbv"),
        description="Policy that chooses the next arm.",
    )
    weights: WeightLimits | None = Field(
        None, description="Bounds on the weights of arms: at_least and at_most."
    )
    budget: Budget = Field(description="Limits on the run: samples, cost or time.")
    warm_start: int = Field(10, ge=1, description="Samples per arm before the first solve.")
    draw: Literal["iid", "tracking"] | None = Field(
        None,
        description="Draw arms at random (iid), or choose the arm that is furthest behind its weight "
        "(tracking). By default, tracking for mixture-ucbv and iid for other policies.",
    )
    resolve_growth: float = Field(
        0.01,
        ge=0,
        description="Relative growth of the sample count between solves; with 0, solve after every sample.",
    )
    in_flight: int = Field(
        0,
        ge=1,
        description="Concurrent samples across all arms; by default, the largest concurrency × batch.",
    )
    retries: Retries = Field(
        default_factory=lambda: Retries.model_validate({}), description="How failures are handled."
    )
    stop_when: StopWhen | None = Field(None, description="Conditions for stopping early.")
    keep: Keep | None = Field(
        None, description="Keep only the best samples: samples or share, and min_quality."
    )

    @model_validator(mode="after")
    def _set_in_flight(self) -> Study:
        if not self.in_flight:
            most = max(arm.concurrency * arm.batch for arm in self.arms.values())
            object.__setattr__(self, "in_flight", most)
        return self

    def plain(self) -> dict[str, Any]:
        """Return JSON values from which ``study_from`` recreates an equal study."""
        found = self.model_dump(mode="json", exclude={"objective", "policy"})
        found["objective"] = [term.plain() for term in self.objective]
        found["policy"] = self.policy.plain()
        return {key: found[key] for key in type(self).model_fields}


# -- reading -----------------------------------------------------------------------------------------


def read_study(path: str | os.PathLike[str]) -> Study:
    """Read and validate a study file, or the ``study.yaml`` in a folder.

    Raises
    ------
    StudyError
        If the file is invalid. The message lists every problem with its line number.
    """
    path = study_file(path)
    return study_in(parse_study_file(path), valid_name(path.stem))


def study_in(file: StudyFile, default_name: str) -> Study:
    """Validate the content of a study file."""
    problems = Problems()
    study = _validate(file.data, problems, default_name)
    file.raise_if_any(problems)
    assert study is not None
    return study


def study_from(data: Mapping[str, Any]) -> Study:
    """Validate a dict, which can contain Python objects or come from ``study.plain()``.

    Raises
    ------
    StudyError
        If the data is invalid. The message lists every problem with its key path.
    """
    if not isinstance(data, Mapping):
        raise StudyError([f"the study is {shown(data)}; pass a mapping of keys and values."])
    problems = Problems()
    study = _validate(data, problems, "study", written)
    problems.raise_if_any()
    assert study is not None
    return study


def valid_name(text: str) -> str:
    """Turn the name of a file or folder into the name of a study."""
    return re.sub(r"[^\w.-]+", "-", text)[:100].strip("-.") or "study"


def policy_from(policy: Any) -> gx.Policy:
    """Build a policy from a name or ``{name: {parameters}}``, as written in a study."""
    problems = Problems()
    data = plain_data({"policy": policy}, problems, written)
    found = _section_from(PolicySection, data, problems)
    problems.raise_if_any()
    assert found is not None
    made: gx.Policy = found.policy.build()
    return made


class PolicySection(Section):
    """A study section that contains only the policy."""

    policy: Policy


def with_budget(study: Study, limits: Mapping[str, Any]) -> Study:
    """Return a study with these limits in its budget; the others stay as they are.

    Raises
    ------
    StudyError
        If a limit is invalid or does not fit the rest of the study.
    """
    problems = Problems()
    kept = study.budget.model_dump(exclude_none=True)
    data = plain_data({"budget": kept | dict(limits)}, problems)
    found = _section_from(BudgetSection, data, problems)
    problems.raise_if_any()
    assert found is not None
    changed = study.model_copy(update={"budget": found.budget})
    check_consistency(changed, problems)
    problems.raise_if_any()
    return changed


class BudgetSection(Section):
    """A study section that contains only the budget."""

    budget: Budget


def _validate(given: Any, problems: Problems, default_name: str, *objects: Written) -> Study | None:
    data = plain_data(given, problems, *objects)
    find_secrets(data, problems)
    optional: dict[str, Any] = (
        {"budget": {}} if data.get("prompts") else {}
    )  # the prompts limit the run
    study = _section_from(Study, {"name": default_name, **optional, **data}, problems)
    if study is not None and not problems and not missing_in(study):
        check_consistency(study, problems)
    return None if study is None else with_draws(study)


def _section_from(model: type[S], data: dict[str, Any], problems: Problems) -> S | None:
    expansion = Expansion(data, problems)

    def report(path: KeyPath, words: str) -> None:
        origin = expansion.origin(path)
        problems.add(origin, f"{subject(origin)} {words}")

    data = with_numbers(model, expansion.data, report)
    try:
        return model.model_validate(data, context={HAS_PROMPTS: bool(data.get("prompts"))})
    except ValidationError as error:
        add_errors(problems, error, model, data, expansion.origin)
        return None


def json_schema() -> dict[str, Any]:
    """Return the JSON schema for study files."""
    return schema_of(Study)
