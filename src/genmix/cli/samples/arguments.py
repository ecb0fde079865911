"""Turn command-line options into arms, a reference and an objective."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genmix.cli import print_note
from genmix.cli.notes import note_subfolders
from genmix.cli.samples.dimensions import check_dimensions
from genmix.cli.samples.sample_options import InputOptions, KernelName, ScoreOptions
from genmix.cli.tables import counter
from genmix.errors import InputError

if TYPE_CHECKING:
    import genmix as gx
    from genmix.data.features import Statistics
    from genmix.data.loaded_arm import LoadedArm

KERNEL = ("kernel", "bandwidth", "features")
"""Options that together describe a kernel."""
PROMPTS = "prompts"
"""The key of the dimension of the prompts' embeddings, for the joint kernel."""
MOST_NEIGHBORS = 1000
"""Neighbors up to which ``--k`` is checked before the reference is read."""


@dataclass(frozen=True)
class Reference:
    """The reference samples or moments of a command."""

    path: Path
    content: Any
    """Either Samples or Moments."""


@dataclass(frozen=True)
class Inputs:
    """The validated inputs of a command."""

    loaded: Sequence[LoadedArm]
    reference: Reference | None
    objective: gx.Objective
    encoder: str | None
    has_pairs: bool = False
    """Whether the objective compares pairs of prompt and answer."""

    @property
    def arms(self) -> dict[str, Any]:
        return {arm.label: self.rows_of(arm) for arm in self.loaded}

    def rows_of(self, arm: LoadedArm) -> Any:
        """Return what the objective compares: the embeddings, or those of the prompts followed by them."""
        import numpy as np

        pair: tuple[Any, Any] = (arm.prompt_features, arm.features)
        return np.hstack(pair) if self.has_pairs else arm.features

    @property
    def counts(self) -> dict[str, int]:
        return {arm.label: len(arm) for arm in self.loaded}

    @property
    def numbers(self) -> dict[str, Any]:
        """The quality and the cost of the samples, as arguments for gx.score and the like."""
        return {
            name: {arm.label: getattr(arm, name) for arm in self.loaded if _has(arm, name)} or None
            for name in ("quality", "cost")
        }


def _has(arm: LoadedArm, name: str) -> bool:
    return getattr(arm, name) is not None


def read_inputs(options: ScoreOptions, neighbors: bool = False) -> Inputs:
    """Validate the options, then read the samples and embed those that have no embeddings.

    With ``neighbors``, the command itself uses a reference and ``k``, whatever the objective.
    """
    given, has_reference = options.parameters, options.reference is not None
    if neighbors and "k" in given and not has_reference:
        raise InputError("--k counts neighbors in a reference; pass --reference PATH.")
    if options.reference_key is not None and not has_reference:
        raise InputError("--reference-key needs a reference; also pass --reference PATH.")
    extra = ("reference", "k") if neighbors else ()
    _check_options(options.objective, [*given, *(["reference"] if has_reference else [])], extra)
    _check_parameters(options.objective, given)  # before anything is embedded
    loaded, real = load_arms(options), _load_reference(options)
    arms, real, encoder = embed_samples(loaded, real, options.encoder)
    reference = None if real is None else _reference(options.reference, real)
    content = None if reference is None else reference.content
    has_pairs = options.kernel is KernelName.joint
    if has_pairs:
        given |= {PROMPTS: _prompt_columns(arms)}
    check_dimensions(arms, reference, has_pairs)
    objective = make_objective(options.objective, content, given)
    return Inputs(arms, reference, objective, encoder, has_pairs)


def _prompt_columns(arms: Sequence[LoadedArm]) -> int:
    """Return the dimension of the prompts' embeddings; refuse arms without them."""
    for arm in arms:
        if arm.prompt_features is None:
            raise InputError(
                f"--kernel joint compares pairs of prompt and answer, but {arm.source} has no embeddings of "
                "prompts; pass runs that embedded their prompts, or use another kernel."
            )
    return int(arms[0].prompt_features.shape[1])  # type: ignore[union-attr]


# -- samples -----------------------------------------------------------------------------------------


def load_arms(options: InputOptions) -> list[LoadedArm]:
    """Read the samples, without embedding them."""
    from genmix import inputs

    found = inputs.load_arms(options.inputs, options.key)
    note_subfolders(options.inputs, found)
    return found


def refuse_shards(arms: Sequence[LoadedArm], command: str) -> None:
    """Raise InputError if an arm is a folder of shards, which a command does not read in blocks."""
    from genmix.data.shards import Shards

    for arm in arms:
        if isinstance(arm.features, Shards):
            raise InputError(
                f"{arm.source} is a folder of embeddings, which {command} does not accept; use genmix "
                "mixture, score, diagnose or keep."
            )


def _load_reference(options: ScoreOptions) -> LoadedArm | Statistics | None:
    from genmix import inputs

    if options.reference is None:
        return None
    try:
        return inputs.load_samples(options.reference, options.reference_key)
    except InputError as error:
        raise InputError(str(error).replace("--key", "--reference-key")) from error


def embed_samples(
    arms: Sequence[LoadedArm], real: LoadedArm | Statistics | None, encoder: str | None
) -> tuple[list[LoadedArm], LoadedArm | Statistics | None, str | None]:
    """Embed the texts and images of arms and reference with ``--encoder``, which is otherwise a label.

    Return the arms, the reference, and the name of the encoder if it is known.
    """
    from genmix.data.features import Statistics
    from genmix.inputs import common_encoder

    if real is None or isinstance(real, Statistics):
        found, label = _embed(arms, encoder)
    else:
        (*found, real), label = _embed([*arms, real], encoder)
    stated = [(arm.source, arm.encoder) for arm in found]
    if real is not None:
        stated.append(("the reference", real.encoder))
    source, name = common_encoder(stated) or ("", label)
    if label is not None and not f"{name} ".startswith(f"{label} "):
        raise InputError(
            f"--encoder is {label!r}, but {source} was embedded with {name!r}; use the same encoder."
        )
    return found, real, name


def _embed(arms: Sequence[LoadedArm], encoder: str | None) -> tuple[list[LoadedArm], str | None]:
    """Embed what needs it, with progress on stderr; if nothing does, also return the label."""
    from genmix import inputs

    if all(arm.features is not None for arm in arms):
        return list(arms), encoder
    with redirect_stdout(sys.stderr):  # stdout is for the result, not for what a function prints
        found = None if encoder is None else inputs.find_encoder(encoder, print_note)
        try:
            return inputs.embed_arms(arms, found, counter), None
        finally:
            if found is not None:
                found.close()


def _reference(path: Path | None, real: LoadedArm | Statistics) -> Reference:
    from genmix.data.loaded_arm import LoadedArm
    from genmix.data.reference import as_reference

    assert path is not None
    return Reference(path, as_reference(real.features if isinstance(real, LoadedArm) else real))


def neighbor_reference(real: Reference | None, k: int | None) -> Any:
    """Return the samples for precision and recall; None if there are too few and ``k`` was not given."""
    from genmix.data.reference import Samples

    if real is None:
        return None
    if isinstance(real.content, Samples):
        return real.content if k is not None or len(real.content.points) > 5 else None
    if k is not None:
        raise InputError(f"{real.path} has no samples, which --k needs; pass a file of samples.")
    return None


# -- the objective -----------------------------------------------------------------------------------


def objective_terms(objective: str) -> list[tuple[float, str]]:
    """Split an objective into weights and names, e.g. ``vendi + 0.3*quality``."""
    found = []
    for term in objective.split("+"):
        weight, sign, name = term.rpartition("*")
        try:
            found.append((float(weight) if sign else 1.0, name.strip()))
        except ValueError:
            raise InputError(
                f"--objective is {objective!r}, and {weight.strip()!r} is not a number; write a sum as "
                "'vendi + 0.3*quality'."
            ) from None
    return found


def accepted_options(objective: str) -> tuple[str, ...]:
    """Return the options that an objective accepts; raise InputError if there is no such objective."""
    from genmix.study.components import OBJECTIVES, component_name
    from genmix.study.shorthand import suggestion

    settings = OBJECTIVES.get(component_name(objective))
    if settings is None:
        raise InputError(f"--objective is {objective!r}; {suggestion(objective, OBJECTIVES)}")
    fields = [name for name in settings.model_fields if name not in ("kind", "weight")]
    return (*fields, *(KERNEL[1:] if "kernel" in fields else ()))


def _check_options(objective: str, given: Iterable[str], extra: Sequence[str]) -> None:
    accepted = {name: accepted_options(name) for _, name in objective_terms(objective)}
    for name, options in accepted.items():
        if "reference" in options and "reference" not in given:
            raise InputError(f"{name} needs a reference to compare with; pass --reference PATH.")
    for name in given:
        if name not in extra and not any(name in options for options in accepted.values()):
            raise InputError(
                f"{objective} does not accept --{name}, which is for {_objectives_with(name)}; remove "
                "the option."
            )


def _objectives_with(option: str) -> str:
    """Return the objectives that accept an option, by their shortest names."""
    from genmix.study.components import OBJECTIVES, SHORT_NAMES

    short = {name: short for short, name in SHORT_NAMES.items()}
    return ", ".join(short.get(o, o) for o in OBJECTIVES if option in accepted_options(o))


def make_objective(objective: str, reference: Any, given: Mapping[str, Any]) -> gx.Objective:
    """Build the objective from the options."""
    (weight, name), *others = objective_terms(objective)
    found = _make_term(name, reference, given)
    if weight != 1 or others:
        found = weight * found
    for weight, name in others:
        found = found + weight * _make_term(name, reference, given)
    return found


def _make_term(name: str, reference: Any, given: Mapping[str, Any]) -> gx.Objective:
    from genmix.study.components import OBJECTIVES, component_name

    accepted = accepted_options(name)
    arguments = {option: value for option, value in given.items() if option in accepted}
    if "reference" in accepted:
        arguments["reference"] = reference
    if set(KERNEL) & set(arguments):
        is_vendi = component_name(name) in ("vendi", "quality-vendi")
        options = (arguments.pop(each, None) for each in KERNEL)
        arguments["kernel"] = _kernel(is_vendi, given.get(PROMPTS, 1), *options)
    made: gx.Objective = OBJECTIVES[component_name(name)].component(**arguments)
    return made


def _check_parameters(objective: str, given: Mapping[str, Any]) -> None:
    """Build the objective with some reference; raise InputError if a parameter is invalid."""
    import numpy as np

    k = min(given.get("k", 5), MOST_NEIGHBORS)
    points = np.arange(1.0, max(k, 0) + 9)[:, None]
    make_objective(objective, points, {**given, "k": k})


def _kernel(
    is_vendi: bool,
    prompts: int,
    name: KernelName | None,
    bandwidth: str | None,
    features: int | None,
) -> gx.Kernel:
    import genmix as gx

    if name is None:
        name = KernelName.cosine if is_vendi else KernelName.gaussian
    if name in (KernelName.gaussian, KernelName.joint):
        gaussian = gx.Gaussian(_number_or_text(bandwidth or "median"), features)
        return gaussian if name is KernelName.gaussian else gx.Joint(prompts, gaussian, gaussian)
    if bandwidth is not None or features is not None:
        option = "features" if bandwidth is None else "bandwidth"
        raise InputError(
            f"--{option} is for the gaussian kernel, but the kernel is {name}; use --kernel gaussian."
        )
    return gx.Cosine() if name is KernelName.cosine else gx.Polynomial()


def _number_or_text(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def shares(given: Sequence[str] | None, option: str) -> dict[str, float] | None:
    """Read ``NAME=SHARE`` pairs."""
    if not given:
        return None
    found = {}
    for text in given:
        name, separator, share = text.rpartition("=")
        try:
            found[name] = float(share)
        except ValueError:
            separator = ""
        if not separator or not name:
            raise InputError(
                f"{option} is {text!r}; pass an arm and its share, e.g. {option} a=0.1."
            )
    return found
