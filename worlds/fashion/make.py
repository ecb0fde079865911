"""Make the worlds fashion, breeds and boots. Run in the repository root:

python -m worlds.fashion.make               both steps, on the available device
python -m worlds.fashion.make generate      train and sample; takes a GPU, or hours
python -m worlds.fashion.make embed         embed the samples and write the worlds, on a CPU
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from . import data
from .encoders import ENCODERS
from .generate import generate
from .plan import PLANS

WORLDS = Path(__file__).parent.parent
BUILD = WORLDS.parent / "build"


def main(words: Sequence[str] | None = None) -> None:
    asked = arguments(words)
    build = BUILD / "quick" if asked.quick else BUILD
    images = asked.images or build / "fashion-images"
    if asked.step != "embed":
        generate(images, asked.data, torch.device(asked.device), asked.quick)
    if asked.step != "generate":
        from .embed import Source, embed  # needs genmix, unlike training

        out = asked.out or (build / "worlds" if asked.quick else WORLDS)
        embed(Source.of(images, asked.data), out, asked.only, asked.encoders)


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("step", nargs="?", default="all", choices=["all", "generate", "embed"])
    add(
        "--device",
        default="cuda" if torch.cuda.is_available() else "cpu",
        help="device for generate",
    )
    add("--data", type=Path, default=data.DEBIAN, help="folder of the IDX files of Fashion-MNIST")
    add("--images", type=Path, help="output of generate, input of embed (build/fashion-images)")
    add("--out", type=Path, help="folder in which embed writes the worlds (worlds)")
    add("--only", nargs="+", default=list(PLANS), choices=list(PLANS), help="worlds to embed")
    add("--encoders", nargs="+", default=list(ENCODERS), choices=list(ENCODERS))
    add("--quick", action="store_true", help="almost no training, only to test that it runs")
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
