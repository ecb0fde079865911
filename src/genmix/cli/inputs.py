"""From arguments and options to arms, a reference and an objective."""

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
    """What the command line can score and optimise."""

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
TAKES: dict[Goal, tuple[str, ...]] = {
    Goal.vendi: ("order", *KERNEL),
    Goal.rke: (*KERNEL, "unbiased"),
    Goal.fd: ("reference", "ddof"),
    Goal.kd: ("reference", *KERNEL, "unbiased"),
    Goal.precision: ("reference", "k"),
    Goal.density: ("reference", "k"),
}
"""The options that fit each objective."""


@dataclass(frozen=True)
class Sources:
    """The files of a command, and the names of the arrays in them."""

    files: Sequence[str]
    key: str | None
    reference: Path | None
    reference_key: str | None


@dataclass(frozen=True)
class ReferenceFile:
    """A reference as it was read."""

    path: Path
    content: Any
    """Samples or Moments."""
    encoder: str | None


@dataclass(frozen=True)
class Inputs:
    """What a command works on."""

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
    neighbours: bool = False,
) -> Inputs:
    """Everything read and checked; options that do not fit are refused before anything is read.

    With ``neighbours`` the command itself uses a reference and ``k``, whatever the objective.
    """
    given = {name: value for name, value in options.items() if value is not None}
    has_reference = sources.reference is not None
    if neighbours and "k" in given and not has_reference:
        raise InputError("--k counts neighbours in a reference: give --reference FILE.")
    spared = ("reference", "k") if neighbours else ()
    _check_fit(goal, [*given, *(["reference"] if has_reference else [])], spared)
    real = read_reference(sources.reference, sources.reference_key)
    objective = make_objective(goal, real, given)
    arms = read_arms(sources.files, sources.key)
    return Inputs(arms, real, objective, _encoder_name(encoder, real))


def _check_fit(goal: Goal, given: Iterable[str], spared: Sequence[str]) -> None:
    takes = TAKES[goal.short]
    if "reference" in takes and "reference" not in given:
        raise InputError(f"{goal} compares with a reference: give --reference FILE.")
    for name in given:
        if name not in takes and name not in spared:
            fitting = ", ".join(other for other, names in TAKES.items() if name in names)
            raise InputError(f"{goal} takes no --{name}, which is for {fitting}: leave it out.")


def make_objective(
    goal: Goal, real: ReferenceFile | None, given: Mapping[str, Any]
) -> gx.Objective:
    """The objective that the options describe."""
    import genmix as gx

    kinds: dict[Goal, Any] = {
        Goal.vendi: gx.Vendi,
        Goal.rke: gx.RKE,
        Goal.fd: gx.FrechetDistance,
        Goal.kd: gx.KernelDistance,
        Goal.precision: gx.Precision,
        Goal.density: gx.Density,
    }
    takes = TAKES[goal.short]
    chosen = {name: value for name, value in given.items() if name in takes}
    if real is not None and "reference" in takes:
        chosen["reference"] = real.content
    if set(KERNEL) & set(chosen):
        chosen["kernel"] = _kernel(goal, *(chosen.pop(name, None) for name in KERNEL))
    found: gx.Objective = kinds[goal.short](**chosen)
    return found


def _kernel(
    goal: Goal, name: KernelName | None, bandwidth: str | None, features: int | None
) -> gx.Kernel:
    import genmix as gx

    if name is None:
        name = KernelName.cosine if goal is Goal.vendi else KernelName.gaussian
    if name is KernelName.gaussian:
        return gx.Gaussian(_number_or_word(bandwidth or "median"), features)
    if bandwidth is not None or features is not None:
        option = "features" if bandwidth is None else "bandwidth"
        raise InputError(
            f"--{option} is for the gaussian kernel and this one is {name}: give --kernel gaussian."
        )
    return gx.Cosine() if name is KernelName.cosine else gx.Polynomial()


def _number_or_word(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def read_arms(files: Sequence[str], key: str | None) -> dict[str, Any]:
    """Arm → samples, from arguments ``PATH`` or ``NAME=PATH``."""
    from genmix.data.features import Statistics, read_file

    paths: dict[str, Path] = {}
    for given in files:
        name, path = _named(given)
        if name in paths:
            raise InputError(
                f"{paths[name]} and {path} would both be the arm {name!r}: name them, as in "
                f"first={paths[name]} second={path}."
            )
        paths[name] = path
    arms = {name: read_file(path, key) for name, path in paths.items()}
    for name, rows in arms.items():
        if isinstance(rows, Statistics):
            raise InputError(
                f"{paths[name]} holds mu and sigma only, and an arm needs samples: give a file of them."
            )
    return arms


def _named(given: str) -> tuple[str, Path]:
    name, sign, rest = given.partition("=")
    if not sign or Path(given).exists():
        return Path(given).stem, Path(given)
    if not name or not rest:
        raise InputError(f"{given!r} is not NAME=PATH: give both, as in sdxl=a/features.npz.")
    return name, Path(rest)


def read_reference(path: Path | None, key: str | None) -> ReferenceFile | None:
    from genmix.data.features import Statistics, read_file
    from genmix.data.reference import as_reference

    if path is None:
        if key is not None:
            raise InputError("--reference-key is for a reference: give --reference too.")
        return None
    found = read_file(path, key)
    encoder = found.encoder if isinstance(found, Statistics) else None
    return ReferenceFile(path, as_reference(found), encoder)


def _encoder_name(given: str | None, real: ReferenceFile | None) -> str | None:
    """As given, or as the reference's statistics state it."""
    stated = None if real is None else real.encoder
    if given is not None and stated is not None and given != stated:
        raise InputError(
            f"--encoder is {given!r} and the reference was made with {stated!r}: use one for both."
        )
    return given or stated


def neighbours_of(real: ReferenceFile | None, k: int | None) -> Any:
    """Reference samples for precision and recall; None where there are too few and nobody asked."""
    from genmix.data.reference import Samples

    if real is None:
        return None
    if isinstance(real.content, Samples):
        return real.content if k is not None or len(real.content.points) > 5 else None
    if k is not None:
        raise InputError(f"{real.path} holds no samples, which --k needs: give a file of them.")
    return None
