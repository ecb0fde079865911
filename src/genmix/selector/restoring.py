"""What a selector's state must say before it is trusted: version, objective, random generator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from genmix.core.description import from_plain, graft, has_missing
from genmix.errors import InputError
from genmix.objectives.base import Objective

STATE_VERSION = 2


def described_in(saved: Any, objective: Objective | None) -> tuple[Any, Any]:
    """The objective of a state as it was given and as it was fixed, with ``objective``'s functions."""
    if not isinstance(saved, Mapping) or "version" not in saved:
        raise InputError("this is no state of a selector: give what state_dict() returned.")
    if saved["version"] != STATE_VERSION:
        raise InputError(
            f"the state has version {saved['version']!r} and this genmix reads "
            f"{STATE_VERSION}: resume it with the genmix that wrote it."
        )
    described, resolved = from_plain(saved["objective"]), from_plain(saved["resolved"])
    if objective is not None:
        described, resolved = graft(described, objective), graft(resolved, objective)
    missing = has_missing(described)
    if missing is not None:
        raise InputError(
            f"the state was saved with your own function {missing}, which it cannot hold: "
            "pass the same objective= again, with that function in it."
        )
    if objective is not None and described != objective:
        raise InputError(
            f"the state was saved with {described!r}: give that objective, or leave it out."
        )
    return described, resolved


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InputError(f"seed is {seed!r}: give a whole number of at least 0.") from error


def restored_generator(state: Mapping[str, Any]) -> np.random.Generator:
    kind = getattr(np.random, state["bit_generator"], None)
    if not (isinstance(kind, type) and issubclass(kind, np.random.BitGenerator)):
        raise InputError(
            f"the state's random generator {state['bit_generator']!r} is unknown: "
            "resume it with the numpy that wrote it."
        )
    bits = kind()
    bits.state = dict(state)
    return np.random.Generator(bits)
