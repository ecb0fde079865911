"""The resources of a worker are those that Ray can reserve."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from genmix.cluster.resources import Resources


@pytest.mark.parametrize(
    "given", [{"num_gpus": 0.5}, {"num_gpus": 2}, {"num_cpus": 1.5}, {"num_cpus": 0.0001}]
)
def test_what_ray_can_reserve_is_accepted(given: dict[str, float]) -> None:
    [(key, value)] = given.items()
    assert getattr(Resources.model_validate(given), key) == value


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_gpus": 1.5}, "use a whole number, or a fraction below 1"),
        ({"num_gpus": 0.00001}, "use 0, or a number of at least 0.0001"),
        ({"num_cpus": 0.00001}, "use 0, or a number of at least 0.0001"),
    ],
)
def test_what_ray_cannot_reserve_is_refused(given: dict[str, float], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Resources.model_validate(given)
