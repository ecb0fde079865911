"""Worlds: finite pools of samples for the arms that policies are compared on.

A sample of an arm is a row of its pool, drawn with replacement. The pools are therefore the
distributions of the arms, so the population loss and the best mixture are known exactly.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from genmix.comparison.prompts import WorldPrompts
from genmix.errors import InputError, whole
from genmix.offline.mixture import apportion

Rows = NDArray[np.float64]

VARIABLE = "GENMIX_WORLDS"


@dataclass(frozen=True)
class World:
    """Arms as finite pools of samples, for comparing policies.

    A sample of an arm is a row of its pool, drawn with replacement. The pools are therefore the
    population, whose best mixture :func:`genmix.compare` computes exactly.

    Parameters
    ----------
    name : str
        Name of the world in tables and figures.
    arms : dict of str to array, shape (n, d)
        The pool of each arm.
    reference : array, shape (n, d), optional
        Samples of the target distribution, for objectives that are distances.
    encoder : str, optional
        The encoder that produced the embeddings.
    costs : dict of str to float, optional
        The cost of one sample of each arm.
    note : str, optional
        A remark for the report.
    qualities : dict of str to array, shape (n,), optional
        The quality of every row in every pool.
    cost_unit : str, optional
        The unit of the costs.
    prompts : WorldPrompts, optional
        The prompts, and which of them each row answers. Every round of a comparison then draws a prompt.

    Raises
    ------
    InputError
        If the prompts do not match the arms.

    Examples
    --------
    >>> import genmix as gx
    >>> import numpy as np
    >>> world = gx.World("corners", {"a": np.eye(3)[:2], "b": np.eye(3)[1:]})
    >>> world.dimension
    3
    >>> result = gx.compare(world, ["mixture-oracle"], 2, objective=gx.Vendi(), budget=20, workers=1)
    >>> round(result.best_score, 3)
    2.828
    """

    name: str
    arms: dict[str, Rows]
    reference: Rows | None = None
    encoder: str | None = None
    costs: dict[str, float] | None = None
    note: str = ""
    qualities: dict[str, NDArray[np.float64]] | None = None
    cost_unit: str = ""
    prompts: WorldPrompts | None = None

    def __post_init__(self) -> None:
        if self.prompts is None:
            return
        sizes = {arm: len(rows) for arm, rows in self.prompts.answered.items()}
        if sizes != {arm: len(pool) for arm, pool in self.arms.items()}:
            raise InputError(
                "the prompts do not match the arms; pass the prompt of every row of every arm in answered."
            )

    @property
    def dimension(self) -> int:
        """The dimension of the embeddings."""
        return int(next(iter(self.arms.values())).shape[1])

    def need_reference(self) -> Rows:
        """Return the reference samples.

        Returns
        -------
        array, shape (n, d)

        Raises
        ------
        InputError
            If the world has no reference.
        """
        if self.reference is None:
            raise InputError(
                f"the world {self.name} has no reference; use an objective that does not need one."
            )
        return self.reference


# -- recorded worlds ---------------------------------------------------------------------------------


def find_worlds(folder: Path | None = None) -> Path:
    """Find the folder of recorded worlds: ``folder``, $GENMIX_WORLDS, ./worlds, or one near the source."""
    if folder is not None:
        return folder
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    beside = [parent / "worlds" for parent in Path(__file__).parents]
    for place in (Path("worlds"), *beside):
        if any(place.glob("*/world.json")):
            return place
    raise InputError(
        "could not find the recorded worlds; pass the 'worlds' folder of the genmix repository with "
        f"--worlds, or set ${VARIABLE}."
    )


def load_world(name: str, folder: Path | None = None, encoder: str | None = None) -> World:
    """Load a recorded world with one of its encoders, by default the first."""
    place = find_worlds(folder) / name
    try:
        card = json.loads((place / "world.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{place} is not a recorded world ({error}); check the name.") from error
    encoders = card.get("encoders") or {}
    if not encoders or not card.get("arms"):
        raise InputError(f"{place / 'world.json'} lists no arms or encoders; regenerate the world.")
    chosen = next(iter(encoders)) if encoder is None else encoder
    if chosen not in encoders:
        raise InputError(
            f"the world {name} has no encoder {chosen!r}; use one of {', '.join(encoders)}."
        )
    content = _read_arrays(place / encoders[chosen]["file"], card["arms"])
    arms = {label: content[f"arm_{i}"] for i, label in enumerate(card["arms"])}
    prompts = None
    if "prompts" in card and "prompts" in content:
        answered = np.repeat(np.arange(len(card["prompts"])), card["answers_per_prompt"])
        groups = [prompt["group"] for prompt in card["prompts"]]
        prompts = WorldPrompts(content["prompts"], groups, dict.fromkeys(arms, answered))
    return World(
        name,
        arms,
        content.get("reference"),
        encoders[chosen]["name"],
        card.get("costs"),
        card.get("note", ""),
        cost_unit=card.get("cost_unit", ""),
        prompts=prompts,
    )


def _read_arrays(file: Path, labels: list[str]) -> dict[str, Rows]:
    """Read the pools ``arm_0``, ``arm_1``, …, and ``reference`` and ``prompts`` if they exist."""
    try:
        with np.load(file, allow_pickle=False) as content:
            needed = [f"arm_{i}" for i in range(len(labels))]
            further = [name for name in ("reference", "prompts") if name in content.files]
            return {name: content[name].astype(float) for name in [*needed, *further]}
    except (OSError, KeyError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        raise InputError(f"could not read {file} ({error}); regenerate the world.") from error


# -- controlled worlds -------------------------------------------------------------------------------


def modes(seed: int = 0, arms: int = 4, own: float = 0.6, d: int | None = None) -> World:
    """Create one-hot embeddings: every arm has a few modes of its own, and all share four others.

    ``own`` is the fraction of an arm's mass on its own modes; the reference is uniform over all
    modes. ``d`` is the total number of modes; by default every arm gets 2 to 5 of its own at random.
    """
    rng = np.random.default_rng(seed)
    arms, shared = whole(arms, "arms", 1), 4
    blocks = rng.integers(2, 6, size=arms) if d is None else _blocks(d - shared, arms)
    total = shared + int(blocks.sum())
    starts = shared + np.concatenate([[0], np.cumsum(blocks)[:-1]])
    pools = {}
    for i in range(arms):
        masses = np.zeros(total)
        masses[:shared] = (1 - own) * rng.dirichlet(np.ones(shared))
        masses[starts[i] : starts[i] + blocks[i]] = own * rng.dirichlet(np.full(blocks[i], 3.0))
        pools[f"arm {i}"] = np.repeat(np.eye(total), apportion(masses, 400), axis=0)
    note = f"{arms} arms on {total} modes, {own:.0%} of their mass on their own modes"
    return World("modes", pools, np.repeat(np.eye(total), 20, axis=0), "one-hot", note=note)


def _blocks(total: int, arms: int) -> NDArray[np.int64]:
    if total < arms:
        raise InputError(
            f"d is {total + 4}; pass at least {arms + 4}, for four shared modes and one per arm."
        )
    return apportion(np.full(arms, 1 / arms), total)


def overlapping(seed: int = 0, arms: int = 4, d: int = 8) -> World:
    """Create one-hot embeddings on ``d`` modes that all arms share in different proportions."""
    rng = np.random.default_rng(seed)
    pools = {
        f"arm {i}": np.repeat(np.eye(d), apportion(rng.dirichlet(np.full(d, 0.4)), 400), axis=0)
        for i in range(whole(arms, "arms", 1))
    }
    note = f"{arms} arms that share {d} modes"
    return World("overlapping", pools, np.repeat(np.eye(d), 50, axis=0), "one-hot", note=note)


def gaussians(seed: int = 0, arms: int = 4, d: int = 8) -> World:
    """Create Gaussian clouds, each stretched along its own directions; the reference is standard normal.

    The mean and covariance of a pool equal those of its Gaussian up to rounding, so the Fréchet
    distance of a mixture is that of the true distributions.
    """
    rng = np.random.default_rng(seed)
    size = max(1500, 4 * d)
    pools = {}
    for i in range(whole(arms, "arms", 1)):
        spread = np.full(d, 0.25)
        spread[rng.permutation(d)[: d // 2]] = rng.uniform(0.8, 1.5)
        center = 4 / d * rng.standard_normal(d)
        pools[f"arm {i}"] = center + spread * whitened(rng.standard_normal((size, d)))
    reference = whitened(rng.standard_normal((size, d)))
    note = f"{arms} Gaussian clouds in {d} dimensions"
    return World("gaussians", pools, reference, "coordinates", note=note)


def whitened(rows: Rows) -> Rows:
    """Transform the rows to mean 0 and identity covariance (1/n)."""
    centered = rows - rows.mean(axis=0)
    left, _, right = np.linalg.svd(centered, full_matrices=False)
    moved: Rows = np.sqrt(len(rows)) * left @ right
    return moved
