"""The lists to which every new objective and policy is added, and the worlds they run in.

The suites in ``test_objectives.py`` and ``test_policies.py`` (and the derivative checks) run over
these lists; a public class that is missing from them fails a test.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import genmix as gx
from genmix.objectives import Batch, Sum

Matrix = NDArray[np.float64]

ARMS = ("a", "b", "c")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
"""Devices on which torch arrays are tested."""


def own_kernel(x: Any, y: Any) -> Any:
    """A kernel as a user would write it: no unit diagonal, for numpy and torch."""
    return (1.0 + x @ y.T) ** 2


ORDERS = {"half": 0.5, "one": 1.0, "two": 2.0, "infinity": math.inf}
KERNELS: dict[str, Any] = {
    "cosine": gx.Cosine(),
    "gaussian": gx.Gaussian(),
    "rff": gx.Gaussian(features=8),
    "own": own_kernel,
}

OBJECTIVES: dict[str, Callable[[Matrix], gx.Objective]] = {
    "frechet": gx.FrechetDistance,
    "frechet_ddof1": lambda reference: gx.FrechetDistance(reference, ddof=1),
    "kd": gx.KernelDistance,
    "kd_rff": lambda reference: gx.KernelDistance(reference, gx.Gaussian(features=8)),
    "kd_cosine": lambda reference: gx.KernelDistance(reference, gx.Cosine()),
    "kd_polynomial": lambda reference: gx.KernelDistance(reference, gx.Polynomial()),
    "kd_own": lambda reference: gx.KernelDistance(reference, own_kernel),
    "kd_unbiased": lambda reference: gx.KernelDistance(reference, gx.Gaussian(2.0), unbiased=True),
    "kd_rff_unbiased": lambda reference: gx.KernelDistance(
        reference, gx.Gaussian(2.0, features=8), unbiased=True
    ),
    **{
        f"vendi_{order}_{kernel}": lambda reference, q=q, k=k: gx.Vendi(order=q, kernel=k)
        for order, q in ORDERS.items()
        for kernel, k in KERNELS.items()
    },
    "rke": lambda reference: gx.RKE(),
    "rke_cosine": lambda reference: gx.RKE(gx.Cosine()),
    "rke_rff": lambda reference: gx.RKE(gx.Gaussian(features=8)),
    "rke_own": lambda reference: gx.RKE(own_kernel),
    "rke_unbiased": lambda reference: gx.RKE(gx.Gaussian(2.0), unbiased=True),
    "rke_cosine_unbiased": lambda reference: gx.RKE(gx.Cosine(), unbiased=True),
    "quality_vendi": lambda reference: gx.QualityVendi(),
    "quality_vendi_gaussian": lambda reference: gx.QualityVendi(gx.Gaussian()),
    "inception": lambda reference: gx.InceptionScore(),
    "coverage": lambda reference: gx.Coverage(reference, at=20),
    "precision": gx.Precision,
    "density": gx.Density,
    "quality": lambda reference: gx.Quality(),
    "cost": lambda reference: gx.Cost(),
    "sum": lambda reference: gx.Vendi() + 0.3 * gx.Precision(reference) + 0.01 * gx.Cost(),
    "sum_of_distances": lambda reference: (
        gx.FrechetDistance(reference) + 2 * gx.KernelDistance(reference) + 0.5 * gx.Quality()
    ),
}
"""Name → objective, given reference samples ``(n, d)``."""


def shares(arms: Sequence[str]) -> dict[str, float]:
    """Weights that differ from arm to arm and sum to 1."""
    raw = np.arange(1.0, len(arms) + 1)
    return dict(zip(arms, (raw / raw.sum()).tolist(), strict=True))


POLICIES: dict[str, Callable[[Sequence[str]], gx.Policy]] = {
    "mixture_greedy": lambda arms: gx.MixtureGreedy(),
    "mixture_bonus": lambda arms: gx.MixtureBonus(),
    "mixture_ucb": lambda arms: gx.MixtureUCB(),
    "mixture_ucbv": lambda arms: gx.MixtureUCBV(),
    "mixture_ogd": lambda arms: gx.MixtureOGD(),
    "one_arm_greedy": lambda arms: gx.OneArmGreedy(),
    "epsilon_greedy": lambda arms: gx.EpsilonGreedy(),
    "one_arm_ucb": lambda arms: gx.OneArmUCB(),
    "frechet_ucb": lambda arms: gx.FrechetUCB(),
    "frechet_ucb_threshold": lambda arms: gx.FrechetUCB(threshold=0.3),
    "pak_ucb": lambda arms: gx.PAKUCB(),
    "dak_ucb": lambda arms: gx.DAKUCB(gamma=0.1),
    "dak_ucb_kd": lambda arms: gx.DAKUCB("kd", gamma=0.1),
    "mixture_dak_ucb": lambda arms: gx.MixtureDAKUCB(gamma=0.1),
    "successive_halving": lambda arms: gx.SuccessiveHalving(samples=3, rounds=2),
    "one_arm_oracle": lambda arms: gx.OneArmOracle(arms[0]),
    "mixture_oracle": lambda arms: gx.MixtureOracle(shares(arms)),
    "uniform": lambda arms: gx.Uniform(),
    "fixed": lambda arms: gx.Fixed(shares(arms)),
}
"""Name → policy, given the arms."""


def terms_of(objective: gx.Objective) -> list[gx.Objective]:
    """The objective itself, or the terms of a sum."""
    return [term for _, term in objective.terms] if isinstance(objective, Sum) else [objective]


def public(base: type) -> set[type]:
    """The subclasses of ``base`` that genmix exports."""
    found = [getattr(gx, name) for name in gx.__all__]
    return {c for c in found if isinstance(c, type) and issubclass(c, base) and c is not base}


def holds_own_function(name: str) -> bool:
    """Whether the listed objective has a custom function, which cannot be saved in a state."""
    return name.endswith("_own")


@dataclass(frozen=True)
class World:
    """Samples of every arm with quality and cost, and an objective with its bandwidths fixed."""

    described: gx.Objective
    objective: gx.Objective
    arms: dict[str, Matrix]
    quality: dict[str, Matrix]
    cost: dict[str, Matrix]

    @property
    def batches(self) -> list[Batch]:
        return [Batch(self.arms[a], self.quality[a], self.cost[a]) for a in self.arms]


def make_world(
    name: str, sizes: Sequence[int] = (14, 11, 17), dimension: int = 6, seed: int = 0
) -> World:
    """A world of Gaussian arms (of class-probability rows, for the Inception Score)."""
    rng = np.random.default_rng(seed)
    reference = rng.standard_normal((30, dimension))
    described = OBJECTIVES[name](reference)
    arms, quality, cost = {}, {}, {}
    for index, size in enumerate(sizes):
        label = ARMS[index]
        rows = sample_rows(described, rng, index, size, dimension)
        arms[label] = rows
        quality[label] = rng.uniform(0.2, 1.2, size)
        cost[label] = rng.uniform(0.0, 2.0, size)
    return World(described, described.fix_bandwidths(list(arms.values())), arms, quality, cost)


def sample_rows(
    objective: gx.Objective, rng: np.random.Generator, arm: int, size: int, dimension: int
) -> Matrix:
    """Samples of one arm, which the objective accepts."""
    if isinstance(objective, gx.InceptionScore):
        # Eighths: every half-precision format holds them exactly. Zeros occur.
        raw = np.random.default_rng(arm).dirichlet(np.full(dimension, 2.0), size)
        return np.array([rng.multinomial(8, row) / 8 for row in raw])
    shift = np.roll(np.eye(dimension)[0], arm)
    scale = np.roll(np.linspace(0.4, 1.3, dimension), 2 * arm)
    return shift + scale * rng.standard_normal((size, dimension))


# -- states ------------------------------------------------------------------------------------------


def leaves(value: Any, path: str = "state") -> Iterator[tuple[str, Any]]:
    """Every leaf of nested dicts and lists, with its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def assert_plain(value: Any) -> None:
    """Only arrays of numbers and values of exactly the types that JSON has."""
    for path, leaf in leaves(value):
        if isinstance(leaf, np.ndarray):
            assert leaf.dtype.kind in "fiub", f"{path} is an array of {leaf.dtype}"
        else:
            assert leaf is None or type(leaf) in (bool, int, float, str), f"{path} is {leaf!r}"
            assert not isinstance(leaf, float) or math.isfinite(leaf), f"{path} is {leaf}"


def assert_same_bits(one: Any, other: Any, path: str = "state") -> None:
    """Two states are equal to the last bit in structure, type and value."""
    assert type(one) is type(other), path
    if isinstance(one, dict):
        assert list(one) == list(other), path
        for key in one:
            assert_same_bits(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), path
        for index, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same_bits(a, b, f"{path}[{index}]")
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), path
        assert one.tobytes() == other.tobytes(), path
    elif isinstance(one, float):
        assert one.hex() == other.hex(), path
    else:
        assert one == other, path


def through_files(state: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The state after a round trip to disk: arrays in an ``.npz`` file, the rest as strict JSON."""
    arrays: dict[str, Any] = {}

    def split(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays[f"array{len(arrays)}"] = value
            return {"array": f"array{len(arrays) - 1}"}
        if isinstance(value, dict):
            return {key: split(item) for key, item in value.items()}
        return [split(item) for item in value] if isinstance(value, list) else value

    def join(value: Any, stored: Any) -> Any:
        if isinstance(value, dict) and list(value) == ["array"]:
            return stored[value["array"]]
        if isinstance(value, dict):
            return {key: join(item, stored) for key, item in value.items()}
        return [join(item, stored) for item in value] if isinstance(value, list) else value

    text = json.dumps(split(state), allow_nan=False)
    np.savez(folder / "state.npz", **arrays)
    (folder / "state.json").write_text(text)
    with np.load(folder / "state.npz", allow_pickle=False) as stored:
        return join(json.loads((folder / "state.json").read_text()), stored)
