"""Spend a generation budget across several generators so that all samples together score best.

- ``optimal_mixture``, ``score``, ``diagnose``: analyze samples that already exist, as arrays of embeddings.
- ``keep``: choose the best k of N samples that already exist, with a bound.
- ``predict_keep``: predict how much better they become with more samples.
- ``Selector``: choose the next generator in your own loop, with ``ask`` and ``tell``.
- ``run``, ``resume``, ``export``: run a whole study, from a YAML file to a dataset.
- ``compare``: compare policies on the same arms.

Objectives (``Vendi``, ``FrechetDistance``, …), kernels and policies are immutable descriptions. Objectives
can be added and scaled: ``Vendi() + 0.3 * Precision(real)``.

Examples
--------
>>> import numpy as np
>>> import genmix as gx
>>> arms = {"cats": np.eye(4)[:3], "dogs": np.eye(4)[3:]}
>>> mix = gx.optimal_mixture(arms, gx.Vendi())
>>> {arm: round(weight, 3) for arm, weight in mix.weights.items()}
{'cats': 0.75, 'dogs': 0.25}
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from genmix.data.reference import read_features
from genmix.data.shards import Shards
from genmix.diagnosis.diagnose import diagnose
from genmix.diagnosis.diagnosis import Diagnosis
from genmix.diagnosis.uncertainty import Uncertainty
from genmix.errors import GenmixError, InputError, StorageError
from genmix.kernels.joint import Joint
from genmix.kernels.kernels import Cosine, Gaussian, Kernel, Polynomial
from genmix.objectives import (
    RKE,
    Cost,
    Coverage,
    Density,
    FrechetDistance,
    InceptionScore,
    KernelDistance,
    Objective,
    Precision,
    Quality,
    QualityVendi,
    Score,
    Vendi,
)
from genmix.offline.grouped import GroupedMixture
from genmix.offline.keep import Kept, keep
from genmix.offline.mixture import Mixture, optimal_mixture
from genmix.offline.predict_keep import KeepPrediction, predict_keep
from genmix.offline.scores import ScoreTable, score
from genmix.policies import (
    DAKUCB,
    PAKUCB,
    EpsilonGreedy,
    Fixed,
    FrechetUCB,
    MixtureBonus,
    MixtureDAKUCB,
    MixtureGreedy,
    MixtureOGD,
    MixtureOracle,
    MixtureUCB,
    MixtureUCBV,
    OneArmGreedy,
    OneArmOracle,
    OneArmUCB,
    Policy,
    SuccessiveHalving,
    Uniform,
)
from genmix.selector.selector import Selector
from genmix.selector.tickets import Ticket
from genmix.shards.settings import streaming
from genmix.solvers.eg import EG
from genmix.solvers.newton import Newton
from genmix.solvers.region import Region
from genmix.solvers.solve import Solution, solve

__version__ = "0.2.0"

__all__ = [
    "DAKUCB",
    "EG",
    "PAKUCB",
    "RKE",
    "Comparison",
    "Cosine",
    "Cost",
    "Coverage",
    "Density",
    "Diagnosis",
    "EpsilonGreedy",
    "Fixed",
    "FrechetDistance",
    "FrechetUCB",
    "Gaussian",
    "GenmixError",
    "GroupedMixture",
    "InceptionScore",
    "InputError",
    "Joint",
    "KeepPrediction",
    "Kept",
    "Kernel",
    "KernelDistance",
    "Mixture",
    "MixtureBonus",
    "MixtureDAKUCB",
    "MixtureGreedy",
    "MixtureOGD",
    "MixtureOracle",
    "MixtureUCB",
    "MixtureUCBV",
    "Newton",
    "Objective",
    "OneArmGreedy",
    "OneArmOracle",
    "OneArmUCB",
    "Policy",
    "Polynomial",
    "Precision",
    "Quality",
    "QualityVendi",
    "Region",
    "Run",
    "Score",
    "ScoreTable",
    "Selector",
    "Shards",
    "Solution",
    "StorageError",
    "SuccessiveHalving",
    "Ticket",
    "Uncertainty",
    "Uniform",
    "Variant",
    "Vendi",
    "World",
    "WorldPrompts",
    "__version__",
    "compare",
    "diagnose",
    "export",
    "keep",
    "optimal_mixture",
    "predict_keep",
    "read_features",
    "resume",
    "run",
    "score",
    "solve",
    "streaming",
]

if TYPE_CHECKING:
    from genmix.comparison.compare import compare
    from genmix.comparison.comparison import Comparison
    from genmix.comparison.prompts import WorldPrompts
    from genmix.comparison.variant import Variant
    from genmix.comparison.worlds import World
    from genmix.runs.export import export
    from genmix.runs.result import Run
    from genmix.runs.run import resume, run

LATE = {
    "Comparison": "genmix.comparison.comparison",
    "Run": "genmix.runs.result",
    "Variant": "genmix.comparison.variant",
    "World": "genmix.comparison.worlds",
    "WorldPrompts": "genmix.comparison.prompts",
    "compare": "genmix.comparison.compare",
    "export": "genmix.runs.export",
    "resume": "genmix.runs.run",
    "run": "genmix.runs.run",
}
"""Names imported only on first use, because not every program needs them."""


def __getattr__(name: str) -> Any:
    if name not in LATE:
        raise AttributeError(f"module 'genmix' has no attribute {name!r}")
    return getattr(import_module(LATE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
