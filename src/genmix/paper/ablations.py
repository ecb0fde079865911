"""The paper's ablations: random features, bandwidths, encoders."""

from __future__ import annotations

import json
from typing import Any

import genmix as gx
from genmix.comparison.worlds import World, find_worlds, load_world
from genmix.paper.curves import Panel, figure
from genmix.paper.features import has_dataset, read_dataset, sources
from genmix.paper.item import Item, Made, Setting
from genmix.paper.playing import GREEDY, ONE_ARM, ORACLES, UCB, play, size
from genmix.paper.published import choices

FREQUENCIES = (256, 512, 1024)
ROUNDS_OF_FEATURES, QUICK_ROUNDS_OF_FEATURES = 300, 80
GROWTH_OF_FEATURES = 0.05
"""2R columns are many: fewer rounds and fewer solves show what there is to see."""


def rff(setting: Setting) -> Made:
    """Vendi under the Gaussian kernel by R random frequencies, and under the cosine kernel."""
    policies = GREEDY | ONE_ARM
    panels = []
    for source in sources(setting, ("dogs", "city")):
        world = source.world
        most = QUICK_ROUNDS_OF_FEATURES if setting.quick else ROUNDS_OF_FEATURES
        spent = size(setting, world, repeats=10, most=most)
        kernels: dict[str, gx.Kernel] = {
            f"R = {count}": gx.Gaussian(features=count) for count in FREQUENCIES
        }
        for name, kernel in (kernels | {"cosine": gx.Cosine()}).items():
            objective = gx.Vendi(kernel=kernel)
            options = {"population": False, "resolve_growth": GROWTH_OF_FEATURES}
            found = play(setting, world, objective, policies, spent, **options)
            panels.append(Panel(f"{name}, {source.title}", found))
    return figure(panels, 2)


PAPER_BANDWIDTHS = (20.0, 30.0, 40.0)
PARTS = (0.5, 0.75, 1.0)
"""Of the median distance: as far apart as the paper's three are."""


def bandwidth(setting: Setting) -> Made:
    """RKE and KD under three bandwidths."""
    panels = []
    for source in sources(setting, ("ffhq",)):
        world, reference = source.world, source.world.need_reference()
        sigmas: tuple[float, ...] = PAPER_BANDWIDTHS
        if not source.is_paper:
            median = _median(world)
            sigmas = tuple(part * median for part in PARTS)
        for name in ("RKE", "KD"):
            for value in sigmas:
                kernel = gx.Gaussian(value)
                objective: gx.Objective = gx.RKE(kernel)
                if name == "KD":
                    objective = gx.KernelDistance(reference, kernel)
                spent = size(setting, world, most=1000)
                found = play(setting, world, objective, GREEDY | UCB | ORACLES, spent)
                panels.append(Panel(f"{name}, σ = {value:.3g}", found))
    return figure(panels, 3)


def _median(world: World) -> float:
    kernel: Any = gx.RKE(gx.Gaussian("median")).resolve(list(world.arms.values()))
    return float(kernel.kernel.bandwidth)


def encoder(setting: Setting) -> Made:
    """RKE and KD in several feature spaces of the same samples."""
    panels = []
    worlds = _encoded(setting)
    for name in ("RKE", "KD"):
        for label, (world, sigma) in worlds.items():
            kernel = gx.Gaussian(sigma)
            objective: gx.Objective = gx.RKE(kernel)
            if name == "KD":
                objective = gx.KernelDistance(world.need_reference(), kernel)
            spent = size(setting, world, most=1000)
            found = play(setting, world, objective, GREEDY | UCB | ORACLES, spent)
            panels.append(Panel(f"{name}, {label}", found))
    return figure(panels, 3)


def _encoded(setting: Setting) -> dict[str, tuple[World, Any]]:
    """FFHQ under the paper's three encoders, or a recorded world under all of its own."""
    if setting.features is not None and has_dataset(setting.features, "ffhq"):
        names = {"Inception": "inception", "CLIP": "clip", "DINOv2": "dinov2"}
        return {
            label: (read_dataset(setting.features, "ffhq", name), "median")
            for label, name in names.items()
        }
    folder = find_worlds(setting.worlds)
    card = json.loads((folder / "fashion" / "world.json").read_text("utf-8"))
    return {
        name: (load_world("fashion", setting.worlds, name), "median") for name in card["encoders"]
    }


ITEMS = (
    Item(
        "ablation-rff",
        "Vendi with R = 256, 512, 1024 random frequencies and with the cosine kernel",
        "two of dogs, birds, city: the features of each arm",
        "breeds and city",
        "The paper does not name its two datasets or the bandwidth: dogs and city at the median "
        "distance are taken. It solves in every round: here it is solved again when the samples have "
        f"grown by {100 * GROWTH_OF_FEATURES:g} % since the last time.",
        rff,
    ),
    Item(
        "ablation-bandwidth",
        "RKE and KD under three bandwidths",
        "ffhq: each model's features and the real data's",
        "fashion, with a half, three quarters and all of the median distance for 20, 30 and 40",
        choices("kid", "sigma", "growth"),
        bandwidth,
    ),
    Item(
        "ablation-encoder",
        "RKE and KD in three feature spaces",
        "ffhq/inception, ffhq/clip, ffhq/dinov2: each model's features and the real data's",
        "fashion under EfficientNet-Lite0, pixels and a classifier",
        f"{choices('kid', 'growth')} The paper names no bandwidth for the other encoders: the median "
        "distance is taken for all.",
        encoder,
    ),
)
