"""Settings for objectives, kernels and policies in a study, and the objects built from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Union, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, WrapValidator, create_model, model_validator

import genmix as gx
from genmix.core.plugins import Plugin, find_plugins, plugin_classes
from genmix.core.python_objects import OR_OBJECT, PythonObject, missing_in
from genmix.errors import InputError
from genmix.selector.prompts import prompt_columns
from genmix.study.problems import KeyPath, Problems

if TYPE_CHECKING:
    from genmix.study.study import Study

MAX_NEIGHBORS = 100_000

DRAWS = "at"
"""The parameter of coverage that defaults to the sample budget."""
_draws = "Number of draws whose coverage is optimized; by default, the sample budget."
DrawCount: Any = Annotated[int, Field(ge=1, description=_draws)] | None


# -- names -------------------------------------------------------------------------------------------


def objective_classes() -> dict[str, type]:
    """Return the objectives that a study can use, including those from installed packages."""
    return _builtin_objectives() | plugin_classes(objective_plugins())


def objective_plugins() -> tuple[Plugin, ...]:
    """Return the objectives that installed packages add."""
    names = frozenset(_builtin_objectives())
    return find_plugins("genmix.objectives", gx.Objective, names, _objective_settings)


def kernel_classes() -> dict[str, type]:
    """Return the kernels that a study can use."""
    return {hyphenated(each.__name__): each for each in _public(gx.Kernel)}


def policy_classes() -> dict[str, type]:
    """Return the policies that a study can use, including those from installed packages."""
    return _builtin_policies() | plugin_classes(policy_plugins())


def policy_plugins() -> tuple[Plugin, ...]:
    """Return the policies that installed packages add."""
    names = frozenset(_builtin_policies())
    return find_plugins("genmix.policies", gx.Policy, names, _policy_settings)


def _builtin_objectives() -> dict[str, type]:
    return {hyphenated(each.name): each for each in _public(gx.Objective)}


def _builtin_policies() -> dict[str, type]:
    return {hyphenated(each.__name__): each for each in _public(gx.Policy)}


def _public(base: type) -> list[Any]:
    found = [value for value in vars(gx).values() if isinstance(value, type)]
    return [each for each in found if issubclass(each, base) and each is not base]


def hyphenated(name: str) -> str:
    """Convert a name such as ``MixtureUCB`` or ``mixture_ucb`` to ``mixture-ucb``, and DAKUCB to dak-ucb."""
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=AK)(?=UCB)", "-", name)
    return parts.lower().replace("_", "-")


SHORT_NAMES = {"fd": "frechet-distance", "kd": "kernel-distance"}
"""Short names of objectives. Wherever an objective is named, both names are accepted."""


def component_name(written: str) -> str:
    """Convert a name as users write it, e.g. ``fd`` or ``FrechetDistance``, to ``frechet-distance``."""
    name = hyphenated(written)
    return SHORT_NAMES.get(name, name)


# -- settings ----------------------------------------------------------------------------------------


class ComponentSettings(BaseModel):
    """Settings for an objective, kernel or policy. ``kind`` is its name in study files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    component: ClassVar[type]
    kind: str

    @property
    def needs_reference(self) -> bool:
        return "reference" in type(self).model_fields

    def build(self, reference: Any = None) -> Any:
        """Build the object that these settings describe, with ``reference`` if it needs one."""
        arguments = {key: getattr(self, key) for key in self._given() if key != "weight"}
        if arguments.get(DRAWS, 0) is None:
            del arguments[DRAWS]
        for key, value in arguments.items():
            if isinstance(value, ComponentSettings):
                arguments[key] = value.build()
        if arguments.get("order") == "inf":
            arguments["order"] = np.inf
        if self.needs_reference:
            arguments["reference"] = reference
        with np.errstate(all="ignore"):  # the class rejects values that overflow, e.g. 1e308
            return self.component(**arguments)

    def _given(self) -> list[str]:
        """Return the names of the parameters that the study sets."""
        return [key for key in type(self).model_fields if key in self.model_fields_set - {"kind"}]

    def plain(self) -> dict[str, Any]:
        """Return ``{kind: {parameters}}``, as written in a study file."""
        given = {key: getattr(self, key) for key in self._given()}
        values = {k: str(v) if isinstance(v, PythonObject) else v for k, v in given.items()}
        nested = {k: v.plain() for k, v in values.items() if isinstance(v, ComponentSettings)}
        return {self.kind: values | nested}

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        if not missing_in(self):
            self.build(synthetic_reference([self]))
        return self


class KernelSettings(ComponentSettings):
    """Settings for a kernel."""


class JointSettings(KernelSettings):
    """Settings for the kernel on pairs of a prompt and an answer."""

    prompts: int | None = Field(
        None,
        ge=1,
        description="Dimension of the prompts' embeddings; by default, that of the study's prompts.",
    )

    def build(self, reference: Any = None) -> Any:
        """Build the kernel; until the prompts are embedded, with a dimension of 1."""
        known = self if self.prompts is not None else self.model_copy(update={"prompts": 1})
        return super(JointSettings, known).build(reference)


class PolicySettings(ComponentSettings):
    """Settings for a policy."""


class ObjectiveSettings(ComponentSettings):
    """Settings for one term of the objective."""

    weight: float = Field(1.0, allow_inf_nan=False, description="Weight of this term.")

    def build(self, reference: Any = None) -> Any:
        """Build the objective and multiply it by its weight."""
        made = super().build(reference)
        return made if self.weight == 1 else self.weight * made

    def plain(self) -> dict[str, Any]:
        return {self.kind: {**super().plain()[self.kind], "weight": self.weight}}


class OwnComponent(ComponentSettings):
    """Holds an object of the user's own class or a function, which a study file has no name for."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    kind: str = "own"
    object: PythonObject

    def build(self, reference: Any = None) -> Any:
        return self.object.get()

    def plain(self) -> Any:
        return str(self.object)


class OwnKernel(OwnComponent, KernelSettings):
    """A kernel of the user's own."""


class OwnPolicy(OwnComponent, PolicySettings):
    """A policy of the user's own."""


class OwnObjective(OwnComponent, ObjectiveSettings):
    """A term of the user's own."""

    def build(self, reference: Any = None) -> Any:
        return self.weight * self.object.get() if self.weight != 1 else self.object.get()

    def plain(self) -> Any:
        return {str(self.object): {"weight": self.weight}}


OWN: dict[str, type[OwnComponent]] = {
    "objective": OwnObjective,
    "kernel": OwnKernel,
    "policy": OwnPolicy,
}


def _keep_own(value: Any, validate: Callable[[Any], Any]) -> Any:
    return value if isinstance(value, OwnComponent) else validate(value)


def one_of(settings: Iterable[type[ComponentSettings]]) -> Any:
    """Return the type of a component in a study: one of these settings, told apart by ``kind``."""
    union: Any = Union[tuple(settings)]  # noqa: UP007
    return Annotated[union, Field(discriminator="kind"), WrapValidator(_keep_own)]


def settings_of(name: str, cls: type, base: type[ComponentSettings]) -> Any:
    """Create the settings class for a component from the fields of its dataclass."""
    hints = get_type_hints(cls)
    given = [each for each in fields(cls) if each.repr]
    has_reference = any(each.name == "reference" for each in given)
    parameters: dict[str, Any] = {"kind": (Literal[name], ...)}
    for each in given:
        hint = _written_type(each.name, hints[each.name], has_reference)
        is_required = each.default is MISSING and each.default_factory is MISSING
        default = each.default if isinstance(each.default, int | float | str) else None
        if each.name in base.model_fields:
            continue
        if cls is gx.Coverage and each.name == DRAWS:
            hint, default = DrawCount, None
        parameters[each.name] = (hint, ... if is_required and each.name != "reference" else default)
    made = create_model(
        f"{base.__name__}_{name}",  # the JSON schema needs unique names
        __base__=base,
        __doc__=(cls.__doc__ or "").split("\n")[0],
        **parameters,
    )
    made.component = cls
    return made


def _objective_settings(name: str, cls: type) -> Any:
    return settings_of(name, cls, ObjectiveSettings)


def _policy_settings(name: str, cls: type) -> Any:
    return settings_of(name, cls, PolicySettings)


def _written_type(key: str, hint: Any, has_reference: bool) -> Any:
    """Return the type that a parameter has in a study file."""
    if key == "kernel":
        return Kernel
    if key in PARTS:
        return Annotated[PartKernel | None, Field(description=f"The kernel on {key}s, or null.")]
    if key == "reference":
        words = (
            "Path to a feature file, text file or image folder; overrides the study's reference."
        )
        text = Annotated[str, Field(min_length=1, description=words)] | None
        return Annotated[text, OR_OBJECT]
    if key == "weights":
        return Annotated[dict[str, float], Field(description="Weight of each arm, by label.")]
    if key == "order" and hint is float:
        return hint | Literal["inf"]
    if hint is int and has_reference:
        return Annotated[int, Field(le=MAX_NEIGHBORS)]
    return hint


PARTS = ("prompt", "output")
"""The parameters of the joint kernel that are kernels, or null."""
PART_KERNELS = {
    name: settings_of(name, cls, KernelSettings)
    for name, cls in kernel_classes().items()
    if cls is not gx.Joint
}
PartKernel: Any = one_of(PART_KERNELS.values())
KERNELS = {**PART_KERNELS, "joint": settings_of("joint", gx.Joint, JointSettings)}
Kernel: Any = one_of(KERNELS.values())
OBJECTIVES = {name: _objective_settings(name, cls) for name, cls in objective_classes().items()}
POLICIES = {name: _policy_settings(name, cls) for name, cls in policy_classes().items()}


# -- building ----------------------------------------------------------------------------------------


def make_objective(study: Study, read: Callable[[str], Any], columns: int = 0) -> gx.Objective:
    """Build the objective of a study.

    ``read`` returns the reference at a path: an array ``(n, d)`` or moments. It is called once per
    path. ``columns`` is the dimension of the prompts' embeddings, for joint kernels.
    """
    references = {path: read(path) for path in reference_paths(study)}
    problems = Problems()
    made: list[gx.Objective] = []
    for position, term in enumerate(study.objective):
        path = reference_of(term, study.reference)
        try:
            made.append(_with_prompts(term, columns).build(references.get(path)))
        except InputError as error:
            problems.add(term_path(study, position), f"{term.kind}: {error}")
    problems.raise_if_any()
    return reduce(add, made)


def _with_prompts(term: ObjectiveSettings, columns: int) -> ObjectiveSettings:
    """Return a term whose joint kernel knows the dimension of the prompts' embeddings."""
    if not uses_joint(term):
        return term
    kernel = term.kernel  # type: ignore[attr-defined]
    if not columns or kernel.prompts not in (None, columns):
        known = f"have {columns} dimensions" if columns else "are not known"
        advice = "an encoder with a matching dimension" if columns else "another kernel"
        raise InputError(
            f"the embeddings of the prompts {known}, but the joint kernel needs "
            f"{kernel.prompts or 'their dimension'}; use {advice}."
        )
    return term.model_copy(update={"kernel": kernel.model_copy(update={"prompts": columns})})


def with_draws(study: Study) -> Study:
    """Set the number of draws to the sample budget where the study does not set it.

    A run stores the result, so that extending the run does not change its objective.
    """
    draws, terms = study.budget.samples, list(study.objective)
    for i, term in enumerate(terms):
        if isinstance(term, OBJECTIVES["coverage"]) and dict(term)[DRAWS] is None and draws:
            terms[i] = term.model_copy(update={DRAWS: draws})
    return study.model_copy(update={"objective": tuple(terms)})


def make_policy(study: Study) -> gx.Policy:
    """Build the policy of a study."""
    made: gx.Policy = study.policy.build()
    return made


def uses_joint(term: ObjectiveSettings) -> bool:
    """Return whether a term has a joint kernel that the study describes."""
    return isinstance(getattr(term, "kernel", None), JointSettings)


def uses_pairs(study: Study) -> bool:
    """Return whether the objective compares pairs of a prompt and an answer."""
    return prompt_columns(trial_objective(study)) > 0


def uses_prompt_embeddings(study: Study) -> bool:
    """Return whether the objective or the policy uses the embeddings of the prompts."""
    return bool(make_policy(study).needs_prompts) or uses_pairs(study)


def trial_objective(study: Study) -> gx.Objective:
    """Build the objective with synthetic references, to check its requirements."""
    made: list[gx.Objective] = [t.build(synthetic_reference([t])) for t in study.objective]
    return reduce(add, made)


def term_path(study: Study, position: int) -> KeyPath:
    return ("objective", position) if len(study.objective) > 1 else ("objective",)


def reference_of(term: ObjectiveSettings, default: str | None) -> str:
    """Return the path of the reference that a term compares with, or an empty string."""
    if not term.needs_reference:
        return ""
    found: str = getattr(term, "reference", None) or default or ""
    return found


def reference_paths(study: Study) -> tuple[str, ...]:
    """Return the paths of all references without duplicates, in the order of the terms."""
    found = [reference_of(term, study.reference) for term in study.objective]
    return tuple(path for path in dict.fromkeys(found) if path)


def synthetic_reference(terms: Iterable[ComponentSettings], dimension: int = 1) -> Any:
    """Return synthetic reference samples, enough for the number of neighbors that each term uses."""
    given = [pair for term in terms for pair in dict(term).items() if pair[0] != DRAWS]
    values = [value for _, value in given if type(value) is int]
    rows = 8 + min(max([0, *values]), MAX_NEIGHBORS)  # more than any default needs
    return np.arange(1.0, rows + 1)[:, None] * np.ones(dimension)
