"""Validate user input: labels, the samples from all arms, and individual numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from genmix.core.arrays import Array, Vector, as_matrix, to_numpy
from genmix.errors import InputError, unique_names
from genmix.objectives.objective import Objective
from genmix.objectives.tally import Batch


def labels(arms: Iterable[str]) -> list[str]:
    """Validate arm labels: at least one, non-empty strings, no duplicates."""
    if isinstance(arms, str):
        raise InputError(f"arms is the string {arms!r}; pass a list of labels.")
    names = list(arms)
    if not names:
        raise InputError("there are no arms; pass at least one label.")
    unique_names(names, "arm")
    return names


def batches(
    arms: Mapping[str, Array],
    objective: Objective,
    quality: Mapping[str, object] | None,
    cost: Mapping[str, object] | None,
) -> dict[str, Batch]:
    """Validate every arm's samples against the objective and against each other."""
    check_objective(objective)
    check_maps(arms, quality, cost)
    found: dict[str, Batch] = {}
    for name in labels(arms):
        where = f"arm {name!r}"
        rows = as_matrix(arms[name], where)
        first = next(iter(found.values()), None)
        if first is not None and rows.shape[1] != first.embeddings.shape[1]:
            raise InputError(
                f"{where} has dimension {rows.shape[1]}, but arm {next(iter(found))!r} has "
                f"{first.embeddings.shape[1]}; embed all arms with the same encoder."
            )
        batch = Batch(
            rows,
            sample_numbers((quality or {}).get(name), where, rows.shape[0], "quality"),
            sample_numbers((cost or {}).get(name), where, rows.shape[0], "cost"),
        )
        objective.check(batch, where)
        if rows.shape[0] < objective.least_samples:
            raise InputError(
                f"{where} has {rows.shape[0]} sample, but the objective needs "
                f"{objective.least_samples}; pass more samples."
            )
        found[name] = batch
    objective.check_total(sum(len(batch) for batch in found.values()))
    return found


def check_objective(objective: object) -> None:
    if not isinstance(objective, Objective):
        what = objective.__name__ if isinstance(objective, type) else type(objective).__name__
        raise InputError(f"{what} is not an objective; pass one, e.g. Vendi().")


def check_maps(arms: object, quality: object, cost: object) -> None:
    """Check that arms, quality and cost are maps with the same labels."""
    if not isinstance(arms, Mapping):
        raise InputError('arms is not a map; pass a map from label to samples, e.g. {"sdxl": X}.')
    for values, what in ((quality, "quality"), (cost, "cost")):
        _check_map(values, what, arms)


def _check_map(values: object, what: str, arms: Mapping[str, Array]) -> None:
    if values is None:
        return
    if not isinstance(values, Mapping):
        raise InputError(
            f'{what} is not a map; pass a map from arm to numbers, e.g. {{"sdxl": [0.9, 0.7]}}.'
        )
    unknown = next((arm for arm in values if arm not in arms), None)
    if unknown is not None:
        raise InputError(f"{what} names an unknown arm {unknown!r}; use {', '.join(arms)}.")


def sample_numbers(values: object, where: str, count: int, what: str) -> Vector | None:
    """Validate one number per sample, or one for all of them; None stays None."""
    if values is None:
        return None
    numbers = np.asarray(to_numpy(values))
    if numbers.dtype.kind not in "fiub":
        raise InputError(f"{where}: the {what} has dtype {numbers.dtype}; pass real numbers.")
    numbers = numbers.astype(np.float64)
    if numbers.ndim == 0:
        numbers = np.full(count, float(numbers))
    if numbers.shape != (count,):
        raise InputError(
            f"{where}: {what} has shape {numbers.shape}, but the number of samples is {count}; "
            "pass one number per sample."
        )
    for row, number in enumerate(numbers.tolist()):
        check_number(number, what, f"{where}, sample {row}")
    return numbers


def check_number(value: object, what: str, where: str) -> float:
    """Validate ``value`` and return it as a finite float; a cost must not be negative."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: the {what} is {value!r}; pass a number.") from error
    if not np.isfinite(number):
        raise InputError(f"{where}: the {what} is {number}; pass a finite number.")
    if what == "cost" and number < 0:
        raise InputError(f"{where}: the cost is {number:g}; pass a number of at least 0.")
    return number
