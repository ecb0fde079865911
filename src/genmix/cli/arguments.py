"""Turn command-line arguments and options into arms, a reference and an objective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genmix.errors import InputError

if TYPE_CHECKING:
    import genmix as gx


class Goal(StrEnum):
    """The objectives that the command line can score and optimize."""

    vendi = "vendi"
    rke = "rke"
    fd = "fd"
    frechet_distance = "frechet-distance"
    kd = "kd"
    kernel_distance = "kernel-distance"
    precision = "precision"
    density = "density"

    @property
    def short(self) -> Goal:
        return {Goal.frechet_distance: Goal.fd, Goal.kernel_distance: Goal.kd}.get(self, self)


class KernelName(StrEnum):
    cosine = "cosine"
    gaussian = "gaussian"
    polynomial = "polynomial"


KERNEL = ("kernel", "bandwidth", "features")
OPTIONS: dict[Goal, tuple[str, ...]] = {
    Goal.vendi: ("order", *KERNEL),
    Goal.rke: (*KERNEL, "unbiased"),
    Goal.fd: ("reference", "ddof"),
    Goal.kd: ("reference", *KERNEL, "unbiased"),
    Goal.precision: ("reference", "k"),
    Goal.density: ("reference", "k"),
}
"""The options that each objective accepts."""


@dataclass(frozen=True)
class Sources:
    """The files that a command reads, and the names of the arrays in them."""

    files: Sequence[str]
    key: str | None
    reference: Path | None
    reference_key: str | None


@dataclass(frozen=True)
class ReferenceFile:
    """The content of a reference file."""

    path: Path
    content: Any
    """Either Samples or Moments."""
    encoder: str | None


@dataclass(frozen=True)
class Inputs:
    """The validated inputs of a command."""

    arms: dict[str, Any]
    reference: ReferenceFile | None
    objective: gx.Objective
    encoder: str | None

    @property
    def counts(self) -> dict[str, int]:
        return {name: len(rows) for name, rows in self.arms.items()}


def read_inputs(
    sources: Sources,
    goal: Goal,
    options: Mapping[str, Any],
    encoder: str | None,
    neighbors: bool = False,
) -> Inputs:
    """Validate the options, then read the files.

    With ``neighbors``, the command itself uses a reference and ``k``, whatever the objective.
    """
    given = {name: value for name, value in options.items() if value is not None}
    has_reference = sources.reference is not None
    if neighbors and "k" in given and not has_reference:
        raise InputError("--k counts neighbors in a reference; pass --reference FILE.")
    extra = ("reference", "k") if neighbors else ()
    _check_options(goal, [*given, *(["reference"] if has_reference else [])], extra)
    real = read_reference(sources.reference, sources.reference_key)
    objective = make_objective(goal, real, given)
    arms = read_arms(sources.files, sources.key)
    return Inputs(arms, real, objective, _encoder_name(encoder, real))


def _check_options(goal: Goal, given: Iterable[str], extra: Sequence[str]) -> None:
    accepted = OPTIONS[goal.short]
    if "reference" in accepted and "reference" not in given:
        raise InputError(f"{goal} needs a reference to compare with; pass --reference FILE.")
    for name in given:
        if name not in accepted and name not in extra:
            goals = ", ".join(other for other, names in OPTIONS.items() if name in names)
            raise InputError(
                f"{goal} does not accept --{name}, which is for {goals}; remove the option."
            )


def make_objective(
    goal: Goal, real: ReferenceFile | None, given: Mapping[str, Any]
) -> gx.Objective:
    """Build the objective from the options."""
    import genmix as gx

    kinds: dict[Goal, Any] = {
        Goal.vendi: gx.Vendi,
        Goal.rke: gx.RKE,
        Goal.fd: gx.FrechetDistance,
        Goal.kd: gx.KernelDistance,
        Goal.precision: gx.Precision,
        Goal.density: gx.Density,
    }
    accepted = OPTIONS[goal.short]
    arguments = {name: value for name, value in given.items() if name in accepted}
    if real is not None and "reference" in accepted:
        arguments["reference"] = real.content
    if set(KERNEL) & set(arguments):
        arguments["kernel"] = _kernel(goal, *(arguments.pop(name, None) for name in KERNEL))
    objective: gx.Objective = kinds[goal.short](**arguments)
    return objective


def _kernel(
    goal: Goal, name: KernelName | None, bandwidth: str | None, features: int | None
) -> gx.Kernel:
    import genmix as gx

    if name is None:
        name = KernelName.cosine if goal is Goal.vendi else KernelName.gaussian
    if name is KernelName.gaussian:
        return gx.Gaussian(_number_or_text(bandwidth or "median"), features)
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


def read_arms(files: Sequence[str], key: str | None) -> dict[str, Any]:
    """Read the samples of each arm from ``PATH`` or ``NAME=PATH`` arguments."""
    from genmix.data.features import Statistics, read_file

    paths: dict[str, Path] = {}
    for given in files:
        name, path = _split_name(given)
        if name in paths:
            raise InputError(
                f"{paths[name]} and {path} would both be named {name!r}; name them, e.g. "
                f"first={paths[name]} second={path}."
            )
        paths[name] = path
    arms = {name: read_file(path, key) for name, path in paths.items()}
    for name, rows in arms.items():
        if isinstance(rows, Statistics):
            raise InputError(
                f"{paths[name]} has only mu and sigma, but an arm needs samples; pass a file of samples."
            )
    return arms


def _split_name(given: str) -> tuple[str, Path]:
    name, sign, rest = given.partition("=")
    if not sign or Path(given).exists():
        return Path(given).stem, Path(given)
    if not name or not rest:
        raise InputError(f"{given!r} is not NAME=PATH; pass both, e.g. sdxl=a/features.npz.")
    return name, Path(rest)


def read_reference(path: Path | None, key: str | None) -> ReferenceFile | None:
    from genmix.data.features import Statistics, read_file
    from genmix.data.reference import as_reference

    if path is None:
        if key is not None:
            raise InputError("--reference-key needs a reference; also pass --reference FILE.")
        return None
    found = read_file(path, key)
    encoder = found.encoder if isinstance(found, Statistics) else None
    return ReferenceFile(path, as_reference(found), encoder)


def _encoder_name(given: str | None, real: ReferenceFile | None) -> str | None:
    """Return the given encoder, or the one that the reference names."""
    stated = None if real is None else real.encoder
    if given is not None and stated is not None and given != stated:
        raise InputError(
            f"--encoder is {given!r}, but the reference was embedded with {stated!r}; use the same encoder."
        )
    return given or stated


def neighbor_reference(real: ReferenceFile | None, k: int | None) -> Any:
    """Return the samples for precision and recall; None if there are too few and ``k`` was not given."""
    from genmix.data.reference import Samples

    if real is None:
        return None
    if isinstance(real.content, Samples):
        return real.content if k is not None or len(real.content.points) > 5 else None
    if k is not None:
        raise InputError(f"{real.path} has no samples, which --k needs; pass a file of samples.")
    return None
