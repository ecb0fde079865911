"""Objectives: what a mixture is optimised for."""

from genmix.objectives.base import Batch, Objective, Score, Scores, Sum, Tally
from genmix.objectives.frechet import FrechetDistance
from genmix.objectives.inception import InceptionScore
from genmix.objectives.kernel_distance import KernelDistance
from genmix.objectives.linear import Cost, Density, Precision, Quality
from genmix.objectives.spectral import RKE, QualityVendi, Vendi

__all__ = [
    "RKE",
    "Batch",
    "Cost",
    "Density",
    "FrechetDistance",
    "InceptionScore",
    "KernelDistance",
    "Objective",
    "Precision",
    "Quality",
    "QualityVendi",
    "Score",
    "Scores",
    "Sum",
    "Tally",
    "Vendi",
]
