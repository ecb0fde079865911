"""Digests of functions include what the functions hold."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.core.python_objects import digest_of


def closure(held: Any) -> Callable[[], Any]:
    def function() -> Any:
        return held

    return function


class Scaled:
    def __init__(self, scale: float) -> None:
        self.scale, self._cache = scale, {}  # type: ignore[var-annotated]

    def __call__(self, rows: Any) -> Any:
        return self.scale * rows

    def apply(self, rows: Any) -> Any:
        return self(rows)


@pytest.mark.parametrize(
    "make",
    [
        closure,
        Scaled,
        lambda value: Scaled(value).apply,
        lambda value: closure(closure(value)),
        lambda value: closure((value, "text")),
        lambda value: closure(np.full(3, value)),
        lambda value: functools.partial(closure(value)),
    ],
)
def test_what_a_function_holds_is_part_of_its_digest(make: Callable[[float], Any]) -> None:
    assert digest_of(make(1.0)) == digest_of(make(1.0))
    assert digest_of(make(1.0)) != digest_of(make(2.0))


def test_state_is_not() -> None:
    def counting() -> Callable[[], int]:
        count, seen = 0, list[int]()

        def function() -> int:
            nonlocal count
            count += 1
            seen.append(count)
            return count

        return function

    function, scaled = counting(), Scaled(1.0)
    before = digest_of(function), digest_of(scaled)
    function()
    scaled._cache["key"] = 1
    assert (digest_of(function), digest_of(scaled)) == before
    assert digest_of(closure(object())) == digest_of(closure(object()))


def test_a_function_can_hold_itself() -> None:
    def factorial(n: int) -> int:
        return n * factorial(n - 1) if n else 1

    assert digest_of(factorial) == digest_of(factorial)


def study(
    width: float = 1.0, scale: float = 1.0, shift: float = 0.0, n: int = 20
) -> dict[str, Any]:
    def kernel(x: Any, y: Any) -> Any:
        return np.exp(-((x[:, None] - y[None]) ** 2).sum(-1) / width)

    def encode(texts: Any) -> Any:
        return np.array([[scale * float(word) for word in text.split()] for text in texts])

    def draw(seeds: Any) -> Any:
        return [f"{seed % 7 + shift} {seed % 5}" for seed in seeds]

    return {
        "arms": {"a": draw, "b": draw},
        "encoder": encode,
        "objective": gx.Vendi(kernel=kernel),
        "budget": {"samples": n},
    }


def test_a_run_keeps_its_kernel_and_its_encoder(tmp_path: Path) -> None:
    run = gx.run(study(), tmp_path / "run", callbacks=())
    for changed in (study(width=50.0, n=24), study(scale=100.0, n=24)):
        with pytest.raises(gx.InputError, match="cannot change during a run"):
            gx.resume(run, study=changed, callbacks=())
    more = gx.resume(run, study=study(shift=1.0, n=24), callbacks=())
    assert sum(more.counts.values()) == 24
