"""Fashion-MNIST from its four IDX files, and batches of it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

DEBIAN = Path("/usr/share/datasets/fashion-mnist")


class Labelled(NamedTuple):
    images: np.ndarray  # (n, 28, 28) uint8
    labels: np.ndarray  # (n,) uint8


def read(folder: Path, part: str) -> Labelled:
    """``part`` is "train" or "t10k" (the test images), as in the file names."""
    images = idx(folder / f"{part}-images-idx3-ubyte.gz")
    return Labelled(images, idx(folder / f"{part}-labels-idx1-ubyte.gz"))


def idx(path: Path) -> np.ndarray:
    """Read an IDX file of bytes: two zeros, the type (8), the number of axes, their lengths, the values."""
    if not path.is_file():
        raise SystemExit(
            f"{path} does not exist; install the Debian package dataset-fashion-mnist, or pass the "
            "folder of the four IDX files with --data."
        )
    content = gzip.decompress(path.read_bytes())
    axes = content[3]
    shape = np.frombuffer(content, ">u4", axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def some_of_each(
    labels: np.ndarray, classes: tuple[int, ...], each: int, random: np.random.Generator
) -> np.ndarray:
    """The indices of ``each`` randomly chosen images per class."""
    return np.concatenate([random.permutation(np.flatnonzero(labels == c))[:each] for c in classes])


def tensors(real: Labelled, device: torch.device) -> tuple[Tensor, Tensor]:
    """All images as ``(n, 1, 28, 28)`` from 0 to 1, and their labels, on the device."""
    images = torch.tensor(real.images, device=device).unsqueeze(1).float() / 255
    return images, torch.tensor(real.labels, device=device).long()


def batches(
    images: Tensor, labels: Tensor, size: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """One epoch in random order; images that do not fill a batch are skipped."""
    size = min(size, len(images))
    order = torch.randperm(len(images), generator=generator, device=images.device)
    for start in range(0, len(images) - size + 1, size):
        rows = order[start : start + size]
        yield images[rows], labels[rows]
