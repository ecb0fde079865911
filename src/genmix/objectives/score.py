"""Scores: numbers with a name, a direction and details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from genmix.core.arrays import Vector
from genmix.core.text import rounded

WORDS = {"normalisation": "normalization"}
"""Display names of details, where they differ from the keys."""


class Score(float):
    """A float with the name, the direction and the details of what it measures.

    Parameters
    ----------
    value : float
        The number.
    name : str
        Name of the objective, e.g. ``"vendi"``.
    maximise : bool
        Whether larger is better.
    details : dict
        What the number depends on, e.g. kernel, number of samples and encoder.

    Examples
    --------
    >>> import genmix as gx
    >>> score = gx.Score(31.2, "vendi", True, {"n": 500})
    >>> score
    vendi 31.2 ↑ (n 500)
    >>> score + 1
    32.2
    """

    name: str
    maximise: bool
    details: dict[str, Any]

    def __new__(cls, value: float, name: str, maximise: bool, details: dict[str, Any]) -> Score:
        score = super().__new__(cls, value)
        score.name, score.maximise, score.details = name, maximise, details
        return score

    def __repr__(self) -> str:
        arrow = "↑" if self.maximise else "↓"
        return f"{self.name} {float(self):.6g} {arrow} ({details_text(self.details)})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return Score, (float(self), self.name, self.maximise, self.details)


def details_text(details: Mapping[str, Any]) -> str:
    """Format the details of a score for people."""
    return ", ".join(
        f"{WORDS.get(key, key)} {value if key == 'encoder' else rounded(str(value))}"
        for key, value in details.items()
    )


Scores = Score | dict[str, Score]
"""One score, or the scores of a sum's terms by name."""


def score_context(alpha: Vector, counts: Sequence[int], encoder: str | None) -> dict[str, Any]:
    """Return details of a score: n, the effective n of the weights (if different), the encoder."""
    used = alpha > 0
    effective = round(1 / float(np.sum(alpha[used] ** 2 / np.asarray(counts)[used])))
    n: dict[str, Any] = {"n": int(sum(counts))}
    if effective != n["n"]:
        n["effective n"] = effective
    return n | {"encoder": encoder or "unstated"}
