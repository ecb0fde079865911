"""Objectives for which mixtures are optimized."""

from genmix.objectives.coverage import Coverage
from genmix.objectives.frechet import FrechetDistance
from genmix.objectives.inception import InceptionScore
from genmix.objectives.kernel_distance import KernelDistance
from genmix.objectives.objective import Objective, Sum
from genmix.objectives.precision_density import Density, Precision
from genmix.objectives.quality_cost import Cost, MeanObjective, Quality
from genmix.objectives.rke import RKE
from genmix.objectives.score import Score, Scores, score_context
from genmix.objectives.tally import Batch, Tally
from genmix.objectives.vendi import QualityVendi, Vendi

__all__ = [
    "RKE",
    "Batch",
    "Cost",
    "Coverage",
    "Density",
    "FrechetDistance",
    "InceptionScore",
    "KernelDistance",
    "MeanObjective",
    "Objective",
    "Precision",
    "Quality",
    "QualityVendi",
    "Score",
    "Scores",
    "Sum",
    "Tally",
    "Vendi",
    "score_context",
]
