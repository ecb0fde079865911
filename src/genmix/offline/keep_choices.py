"""The sets of samples that ``keep`` chooses from: what users pass as counts, groups and a start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from genmix.core.arrays import to_numpy
from genmix.core.text import counted
from genmix.errors import InputError, whole
from genmix.objectives import Batch, Objective
from genmix.solvers.subsets import Groups, Indices, Subsets


def choices(
    batch: Batch, objective: Objective, *, k: Any, groups: Any, at_least: Any, at_most: Any
) -> Subsets:
    """Return the sets to choose from."""
    size = len(batch)
    k = _count(k, size, objective)
    if groups is None:
        if at_least is not None or at_most is not None:
            what = "at_least" if at_least is not None else "at_most"
            raise InputError(f"{what} needs groups; pass groups= with one label per sample.")
        return Subsets(size, k)
    if at_least is None and at_most is None:
        raise InputError("groups has no counts; pass at_least= or at_most= as well.")
    labels = _labels(groups, size)
    names = list(dict.fromkeys(labels))
    order = {name: index for index, name in enumerate(names)}
    members = np.array([order[label] for label in labels], dtype=np.int64)
    sizes = np.bincount(members)
    low = _counts(at_least, names, "at_least", np.zeros(len(names), dtype=np.int64))
    high = np.minimum(_counts(at_most, names, "at_most", sizes), sizes)
    _check_counts(k, names, sizes, low, high)
    return Subsets(size, k, Groups(members, low, high))


def first_set(start: Sequence[int] | None, subsets: Subsets) -> Indices | None:
    if start is None:
        return None
    indices = np.unique(np.asarray(to_numpy(start)))
    if (
        indices.dtype.kind not in "iu"
        or len(indices) != subsets.count
        or len(start) != len(indices)
    ):
        raise InputError(
            f"start is not a set of {subsets.count} indices; pass k different whole numbers."
        )
    if indices[0] < 0 or indices[-1] >= subsets.size:
        raise InputError(
            f"start contains index {int(indices[0] if indices[0] < 0 else indices[-1])}, but there are "
            f"{subsets.size} samples; pass indices from 0 to {subsets.size - 1}."
        )
    if not subsets.contains(indices):
        raise InputError("start does not satisfy the counts of the groups; pass a set that does.")
    return indices.astype(np.int64)


def _count(given: Any, size: int, objective: Objective) -> int:
    k = whole(given, "k", 1)
    if k > size:
        raise InputError(
            f"k is {k}, but there are only {counted(size, 'sample')}; pass a smaller k."
        )
    if k < objective.least_samples:
        raise InputError(
            f"k is {k}, but the objective needs at least {objective.least_samples} samples; "
            "pass a larger k."
        )
    return k


def _labels(groups: Any, size: int) -> list[Any]:
    try:
        labels = list(to_numpy(groups).tolist() if hasattr(groups, "tolist") else groups)
        unnamed = next((j for j, label in enumerate(labels) if label != label), None)
        set(labels)
    except TypeError:
        raise InputError(
            "groups is not a sequence of labels; pass one string or number per sample."
        ) from None
    if len(labels) != size:
        raise InputError(
            f"groups has {counted(len(labels), 'label')}, but there are {counted(size, 'sample')}; pass one "
            "per sample."
        )
    if unnamed is not None:
        raise InputError(f"groups, sample {unnamed}: the label is NaN; name the sample's group.")
    return labels


def _counts(given: Any, names: list[Any], what: str, default: Indices) -> Indices:
    if given is None:
        return default
    if not isinstance(given, Mapping):
        return np.full(len(names), whole(given, what, 0))
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        known = ", ".join(repr(name) for name in names[:8])
        raise InputError(f"{what} names group {unknown!r}, which has no samples; use {known}.")
    return np.array(
        [
            whole(given[name], f"{what} for group {name!r}", 0) if name in given else value
            for name, value in zip(names, default.tolist(), strict=True)
        ],
        dtype=np.int64,
    )


def _check_counts(k: int, names: list[Any], sizes: Any, low: Indices, high: Indices) -> None:
    for name, size, least, most in zip(names, sizes, low, high, strict=True):
        if least > size:
            raise InputError(
                f"at_least is {least} for group {name!r}, which has {counted(size, 'sample')}; pass at most "
                f"{size}."
            )
        if least > most:
            raise InputError(
                f"group {name!r} has at_least {least} and at_most {most}; make at_most the larger one."
            )
    if low.sum() > k:
        raise InputError(
            f"at_least requires {counted(int(low.sum()), 'sample')}, but k is {k}; pass smaller counts or a "
            "larger k."
        )
    if high.sum() < k:
        raise InputError(
            f"at_most allows only {high.sum()} samples, but k is {k}; pass larger counts or a smaller k."
        )
