"""The paper's ablations of random features, bandwidths and encoders."""

from __future__ import annotations

import json
from typing import Any

import genmix as gx
from genmix.comparison.comparison import Comparison
from genmix.comparison.worlds import World, find_worlds, load_world
from genmix.paper.comparisons import GREEDY, ONE_ARM, ORACLES, UCB, compare_policies, size_for
from genmix.paper.feature_files import has_dataset, load_datasets, read_dataset
from genmix.paper.items import Item, ItemOutput, Settings
from genmix.paper.published import choices
from genmix.paper.score_curves import curves_figure

FREQUENCIES = (256, 512, 1024)
FEATURE_ROUNDS, QUICK_FEATURE_ROUNDS = 300, 80
FEATURE_GROWTH = 0.05
"""Larger than elsewhere, and with fewer rounds, because random features have 2R columns."""


def random_features(settings: Settings) -> ItemOutput:
    """Compare policies on Vendi with random Gaussian features and with the cosine kernel."""
    kernels: dict[str, gx.Kernel] = {
        f"R = {count}": gx.Gaussian(features=count) for count in FREQUENCIES
    }
    most = QUICK_FEATURE_ROUNDS if settings.quick else FEATURE_ROUNDS
    options = {"population": False, "resolve_growth": FEATURE_GROWTH}
    found = {}
    for data in load_datasets(settings, ("dogs", "city")):
        world = data.world
        size = size_for(settings, world, repeats=10, most=most)
        for name, kernel in (kernels | {"cosine": gx.Cosine()}).items():
            objective, policies = gx.Vendi(kernel=kernel), GREEDY | ONE_ARM
            found[f"{name}, {data.title}"] = compare_policies(
                settings, world, objective, policies, size, **options
            )
    return curves_figure(found)


PAPER_BANDWIDTHS = (20.0, 30.0, 40.0)
FRACTIONS = (0.5, 0.75, 1.0)
"""Fractions of the median distance, in the same ratios as the paper's bandwidths."""


def bandwidths(settings: Settings) -> ItemOutput:
    """Compare policies on RKE and KD with three bandwidths."""
    (data,) = load_datasets(settings, ("ffhq",))
    sigmas: tuple[float, ...] = PAPER_BANDWIDTHS
    if not data.is_paper:
        median = _median_distance(data.world)
        sigmas = tuple(fraction * median for fraction in FRACTIONS)
    found = {
        f"{name}, σ = {sigma:.3g}": _compare(settings, data.world, name, sigma)
        for name in ("RKE", "KD")
        for sigma in sigmas
    }
    return curves_figure(found, 3)


def _median_distance(world: World) -> float:
    objective: Any = gx.RKE(gx.Gaussian("median")).fix_bandwidths(list(world.arms.values()))
    return float(objective.kernel.bandwidth)


def encoders(settings: Settings) -> ItemOutput:
    """Compare policies on RKE and KD in several feature spaces of the same samples."""
    worlds = _encoded(settings)
    found = {
        f"{name}, {label}": _compare(settings, world, name, "median")
        for name in ("RKE", "KD")
        for label, world in worlds.items()
    }
    return curves_figure(found, 3)


def _encoded(settings: Settings) -> dict[str, World]:
    """Return FFHQ with each of the paper's three encoders, or a recorded world with each of its own."""
    if settings.features is not None and has_dataset(settings.features, "ffhq"):
        return {
            label: read_dataset(settings.features, "ffhq", label.lower())
            for label in ("Inception", "CLIP", "DINOv2")
        }
    folder = find_worlds(settings.worlds)
    card = json.loads((folder / "fashion" / "world.json").read_text("utf-8"))
    return {name: load_world("fashion", settings.worlds, name) for name in card["encoders"]}


def _compare(settings: Settings, world: World, name: str, sigma: Any) -> Comparison:
    """Compare policies on RKE or KD with a Gaussian kernel."""
    kernel = gx.Gaussian(sigma)
    objective: gx.Objective = gx.RKE(kernel)
    if name == "KD":
        objective = gx.KernelDistance(world.need_reference(), kernel)
    size = size_for(settings, world, most=1000)
    return compare_policies(settings, world, objective, GREEDY | UCB | ORACLES, size)


ITEMS = (
    Item(
        "ablation-rff",
        "Vendi with R = 256, 512, 1024 random frequencies and with the cosine kernel",
        "dogs, city (the features of each arm)",
        "breeds and city",
        "The paper names neither its two datasets nor the bandwidth; we use dogs and city with the "
        "median distance as the bandwidth. It solves in every round; we re-solve whenever the number of "
        f"samples has grown by {100 * FEATURE_GROWTH:g}%.",
        random_features,
    ),
    Item(
        "ablation-bandwidth",
        "RKE and KD with three bandwidths",
        "ffhq (the features of each model and of the real data)",
        "fashion, with 0.5, 0.75 and 1 times the median distance in place of 20, 30 and 40",
        choices("kid", "sigma", "growth"),
        bandwidths,
    ),
    Item(
        "ablation-encoder",
        "RKE and KD in three feature spaces",
        "ffhq/inception, ffhq/clip, ffhq/dinov2 (the features of each model and of the real data)",
        "fashion with EfficientNet-Lite0, pixels and a classifier as encoders",
        f"{choices('kid', 'growth')} The paper gives no bandwidth for the other encoders; we use the "
        "median distance for all.",
        encoders,
    ),
)
