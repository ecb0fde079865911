"""Embed prompts, and group them by the similarity of their embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.core.streams import private_stream
from genmix.data.prompts import Prompt
from genmix.data.samples import Sample
from genmix.encoders.base import Encoder
from genmix.encoders.embed_items import embed_items
from genmix.kernels.distances import squared_distances

ATTEMPTS = 8
"""Number of random starts; the best result is used."""
MAX_STEPS = 100


def embed_prompts(prompts: Sequence[Prompt], encoder: Encoder) -> NDArray[Any]:
    """Return the embeddings of the prompts, of shape ``(n, d)``."""
    items = [(f"row {p.id}", partial(Sample, text=p.text)) for p in prompts]
    return embed_items(items, encoder, "the prompts", lambda done, total: None)


def grouped(
    prompts: Sequence[Prompt], embeddings: NDArray[Any], groups: int, seed: int
) -> list[Prompt]:
    """Return the prompts with groups found by k-means, named ``group 1`` and so on, largest first.

    There are fewer groups if there are fewer distinct prompts.
    """
    labels = cluster(np.asarray(embeddings, dtype=np.float64), groups, seed)
    sizes = np.bincount(labels)
    names = {
        int(label): f"group {n}" for n, label in enumerate(np.argsort(-sizes, kind="stable"), 1)
    }
    return [p._replace(group=names[int(label)]) for p, label in zip(prompts, labels, strict=True)]


def cluster(rows: NDArray[Any], groups: int, seed: int) -> NDArray[Any]:
    """Return the cluster of each row, from 0, for the best of several k-means runs."""
    groups = min(groups, len(np.unique(rows, axis=0)))
    rng = private_stream(seed, "prompt groups")
    runs = [_k_means(rows, groups, rng) for _ in range(ATTEMPTS)]
    labels, _ = min(runs, key=lambda run: run[1])
    return np.unique(labels, return_inverse=True)[1]


def _k_means(
    rows: NDArray[Any], groups: int, rng: np.random.Generator
) -> tuple[NDArray[Any], float]:
    """Run k-means once from a k-means++ start; return the clusters and the sum of squared distances."""
    centers = rows[[rng.integers(len(rows))]]
    while len(centers) < groups:
        nearest = squared_distances(rows, centers).min(axis=1)
        if not nearest.any():
            break  # the rest differ only by rounding
        chosen = rng.choice(len(rows), p=nearest / nearest.sum())
        centers = np.concatenate([centers, rows[[chosen]]])
    labels = squared_distances(rows, centers).argmin(axis=1)
    for _ in range(MAX_STEPS):
        used = np.unique(labels)
        centers = np.stack([rows[labels == label].mean(axis=0) for label in used])
        new = squared_distances(rows, centers).argmin(axis=1)
        if np.array_equal(used[new], labels):
            break
        labels = new
    return labels, float(squared_distances(rows, centers).min(axis=1).sum())
