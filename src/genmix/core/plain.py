"""Scores and weights as JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from genmix.objectives import Score, Scores


def finite(value: Any) -> Any:
    """Replace NaN and infinities, which JSON cannot represent, with None at any depth."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, np.generic):
        return finite(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def by_name(scores: Scores) -> dict[str, Score]:
    return scores if isinstance(scores, dict) else {scores.name: scores}


def plain_scores(scores: Scores | None) -> Any:
    """Return scores and their details, keyed by name, as JSON values; None stays None."""
    if scores is None:
        return None
    return {
        name: {
            "value": finite(float(score)),
            "maximise": score.maximise,
            "details": {key: str(value) for key, value in score.details.items()},
        }
        for name, score in by_name(scores).items()
    }


def plain_weights(weights: Mapping[str, float]) -> dict[str, Any]:
    """Return the arms to draw from and their probabilities as lists, and all weights as a dict.

    The lists omit arms of weight zero, for which ``datasets.interleave_datasets`` could wait forever.
    """
    drawn = {arm: weight for arm, weight in weights.items() if weight > 0}
    return {"arms": list(drawn), "probabilities": list(drawn.values()), "weights": weights}
