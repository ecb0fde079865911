"""The Study class, which contains all settings for a run, and functions that create a study."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union

from pydantic import Field, ValidationError, model_validator

import genmix as gx
from genmix.core.python_objects import OR_OBJECT, missing_in
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
from genmix.study.sections import (
    Budget,
    Encoder,
    Keep,
    Label,
    Name,
    Prompts,
    Retries,
    Section,
    StopWhen,
    WeightLimits,
)
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
    Objective = ObjectiveSettings
    Policy = PolicySettings
else:
    Arm = Annotated[Union[arm_kinds()], Field(discriminator="kind")]  # noqa: UP007
    Objective = one_of(OBJECTIVES.values())
    Policy = one_of(POLICIES.values())

S = TypeVar("S", bound=Section)


MOST_IN_FLIGHT, PARTS_OF_BUDGET = 512, 10
"""By default, at most this many samples, or this part of the budget, are in flight to fill batches."""


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
        description="Policy that chooses the next arm. The default is mixture-ucbv, or with groups of "
        "prompts mixture-greedy with draw: tracking.",
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
        description="Maximum number of samples in flight across all arms. By default, the largest "
        "concurrency × batch of any arm, or two full batches per call of all arms with batch > 1 if that is "
        "more, but then at most 512 and at most a tenth of the sample budget.",
    )
    engine: Literal["local", "ray"] = Field(
        "local",
        description="Where generation happens: in this process (local) or on a Ray cluster (ray).",
    )
    retries: Retries = Field(
        default_factory=lambda: Retries.model_validate({}), description="How failures are handled."
    )
    stop_when: StopWhen | None = Field(None, description="Conditions for stopping early.")
    keep: Keep | None = Field(
        None, description="Keep only the best samples: samples or share, and min_quality."
    )

    @model_validator(mode="after")
    def _set_policy(self) -> Study:
        is_grouped = self.prompts is not None and (self.prompts.group or self.prompts.groups)
        if is_grouped and "policy" not in self.model_fields_set:
            greedy = POLICIES["mixture-greedy"](kind="mixture-greedy")
            object.__setattr__(self, "policy", greedy)
            object.__setattr__(self, "draw", self.draw or "tracking")
        return self

    @model_validator(mode="after")
    def _validate_in_flight(self) -> Study:
        return self._with_in_flight()

    def _with_in_flight(self) -> Study:
        """Set the default of ``in_flight``, unless it was given."""
        if "in_flight" not in self.model_fields_set:
            object.__setattr__(self, "in_flight", self._default_in_flight())
        return self

    def _default_in_flight(self) -> int:
        """Return enough to keep the busiest arm busy, and for each full batch another one that is filling.

        Samples in flight do not affect the weights yet, so there are few of them compared with the budget.
        """
        sizes = {label: self.calls(label) * arm.batch for label, arm in self.arms.items()}
        batched = sum(2 * size for label, size in sizes.items() if self.arms[label].batch > 1)
        most = MOST_IN_FLIGHT
        if self.budget.samples is not None:
            most = min(most, self.budget.samples // PARTS_OF_BUDGET)
        return max(*sizes.values(), min(batched, most))

    def calls(self, label: str) -> int:
        """Return the maximum number of concurrent calls to an arm."""
        arm = self.arms[label]
        return arm.concurrency * (arm.resources.replicas if self.engine == "ray" else 1)

    def with_engine(self, engine: str) -> Study:
        """Return the same study on another engine."""
        return self.changed(engine=engine)

    def changed(self, **fields: Any) -> Study:
        """Return a study with other fields; ``in_flight`` follows unless it was set."""
        return self.model_copy(update=fields)._with_in_flight()

    def plain(self) -> dict[str, Any]:
        """Return JSON values from which ``study_from`` recreates an equal study.

        A default of ``in_flight`` is left out, because it depends on the engine and the budget.
        """
        found = self.model_dump(mode="json", exclude={"objective", "policy"})
        found["objective"] = [term.plain() for term in self.objective]
        found["policy"] = self.policy.plain()
        left_out = {"in_flight"} - self.model_fields_set
        return {key: found[key] for key in type(self).model_fields if key not in left_out}


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
    changed = study.changed(budget=found.budget)
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
