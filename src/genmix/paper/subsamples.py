"""Random halves of the samples; the paper's tables report means and standard deviations over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genmix.diagnosis.resampling import half_rows
from genmix.paper.items import Settings, in_parallel

SUBSAMPLES, QUICK_SUBSAMPLES = 50, 10

Arms = Mapping[str, Any]


def over_subsamples(settings: Settings, title: str, function: Any, shared: Any) -> list[Any]:
    """Return ``function(shared, index)`` for every subsample."""
    count = QUICK_SUBSAMPLES if settings.quick else SUBSAMPLES
    return in_parallel(settings, title, function, shared, range(count))


def halves(arms: Arms, seed: int, index: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split every arm into two random halves; the first is the subsample that ``diagnose`` uses."""
    first, second = {}, {}
    for name, rows in arms.items():
        mine, others = half_rows(len(rows), name, seed, index)
        first[name], second[name] = rows[mine], rows[others]
    return first, second
