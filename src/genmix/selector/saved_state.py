"""Save and load a selector, and validate the contents of a saved state."""

from __future__ import annotations

import copy
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from genmix.core import state
from genmix.core.description import from_plain, graft, has_missing
from genmix.core.streams import private_stream
from genmix.core.text import describe_error, quotable
from genmix.errors import GenmixError, InputError
from genmix.objectives import Objective
from genmix.selector.locking import Lock, locked

STATE_VERSION = 2

MAX_DIMENSION = 10**8
"""Largest valid dimension of an embedding; more is damage, and would need too much memory."""

PLACES = re.compile(r"numpy$|torch:\w+(:\d+)?$")
"""Libraries and devices of samples."""


class Savable(ABC):
    """An object whose state can be written to a file and read again."""

    _lock: Lock

    @locked
    def __copy__(self) -> Self:
        """Return an independent copy, which shares the statistics until one of the two changes them.

        What a copy reads does not depend on what was read before, not even in the last bit.
        """
        made = object.__new__(type(self))
        for name, value in vars(self).items():
            is_random = isinstance(value, np.random.Generator)
            vars(made)[name] = copy.deepcopy(value) if is_random else copy.copy(value)
        vars(made)["_pooled"] = None
        return made

    @abstractmethod
    def state_dict(self) -> dict[str, Any]: ...

    @classmethod
    @abstractmethod
    def _from_valid_state(cls, saved: Mapping[str, Any], objective: Objective | None) -> Self: ...

    @classmethod
    def from_state_dict(cls, saved: Mapping[str, Any], objective: Objective | None = None) -> Self:
        """Recreate the selector that :meth:`state_dict` was called on.

        Parameters
        ----------
        saved : mapping
            What :meth:`state_dict` returned.
        objective : Objective, optional
            Needed only if the objective contains a custom function, which cannot be saved.

        Returns
        -------
        Selector

        Raises
        ------
        InputError
            If ``saved`` is not a selector state, is damaged, has a different version, or does not match
            ``objective``.
        """
        try:
            _check_version(saved)
            _check_state(saved)
            return cls._from_valid_state(saved, objective)
        except GenmixError as error:
            if len(str(error).splitlines()) == 1:
                raise
            raise _damaged(quotable(error, most=100)) from error  # it quotes an array
        except Exception as error:  # a damaged state can raise anything
            raise _damaged(describe_error(error)) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to one ``.npz`` file. An existing file is replaced atomically.

        Parameters
        ----------
        path : str or path
            The file to write.

        Raises
        ------
        StorageError
            If the file cannot be written.

        Examples
        --------
        >>> import os, tempfile
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), seed=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sel.save(os.path.join(folder, "selector.npz"))
        ...     again = gx.Selector.load(os.path.join(folder, "selector.npz"))
        >>> again
        <Selector: MixtureUCBV for vendi, 2 arms, 0 samples>
        """
        state.save(path, self.state_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str], objective: Objective | None = None) -> Self:
        """Load a selector that was written by :meth:`save`; see that method for an example.

        Parameters
        ----------
        path : str or path
            The file to read.
        objective : Objective, optional
            As for :meth:`from_state_dict`.

        Returns
        -------
        Selector

        Raises
        ------
        InputError
            If there is no such file, it is damaged or not a saved state, or its version is unknown.
        """
        return cls.from_state_dict(state.load(path), objective)


# -- validation --------------------------------------------------------------------------------------


def _check_version(saved: Any) -> None:
    if not isinstance(saved, Mapping) or "version" not in saved:
        raise InputError("this is not a saved selector state; pass what state_dict() returned.")
    if saved["version"] != STATE_VERSION:
        raise InputError(
            f"the state has version {saved['version']!r}, but this version of genmix reads only "
            f"{STATE_VERSION}; resume with the genmix version that wrote it."
        )


def _damaged(what: str) -> InputError:
    return InputError(f"the saved state is damaged ({what}); pass what state_dict() returned.")


def _check_state(saved: Mapping[str, Any]) -> None:
    """Check everything that does not depend on the objective or the policy."""
    for name, is_valid in VALID.items():
        if not is_valid(saved[name]):
            raise _damaged(f"{name} is invalid")
    arms, told = saved["arms"], saved["told"]
    if len(set(arms)) != len(arms) or not all(_is_text(arm) for arm in arms):
        raise _damaged("arms is invalid")
    if any(len(saved[name]) != len(arms) for name in ("active", "told", "failed")):
        raise _damaged("the arms and their counts differ in number")
    if not saved["solved_at"] <= sum(told):
        raise _damaged("solved_at is invalid")
    for name in ("weights", "mixture", "targets"):
        if not _is_mixture(saved.get(name), sum(saved["active"])):
            raise _damaged(f"{name} is invalid")
    _check_numbers(saved)
    _check_tickets(saved)
    _check_samples(saved)


def _check_numbers(saved: Mapping[str, Any]) -> None:
    """Check the gap, the weights before an arm was added, and the mixture that they belong to."""
    previous = from_plain(saved.get("previous"))  # missing from most states
    found: dict[str, Any] = {"mixture": {}, "gap": 0.0} if previous is None else previous
    if previous is not None and saved["tally"] is None:
        raise _damaged("previous needs the statistics of its samples")
    for name, gap in (("gap", from_plain(saved["gap"])), ("previous", found["gap"])):
        if not isinstance(gap, int | float) or math.isnan(gap):
            raise _damaged(f"{name} is invalid")
    for name, weights in (("former", from_plain(saved["former"])), ("previous", found["mixture"])):
        if not set(weights) <= set(saved["arms"]) or not _is_mixture(
            list(weights.values()) or None, len(weights)
        ):
            raise _damaged(f"{name} is invalid")


def _check_tickets(saved: Mapping[str, Any]) -> None:
    ids = [ticket["id"] for ticket in saved["in_flight"]]
    arms = saved["cells"]["arms"] if "cells" in saved else saved["arms"]
    for ticket in saved["in_flight"]:
        is_known = ticket["arm"] in arms and _is_count(ticket["id"])
        numbers = (ticket["weight"], ticket["propensity"])
        if not is_known or not all(_is_number(value) and value >= 0 for value in numbers):
            raise _damaged("a ticket in flight is invalid")
    if len(set(ids)) != len(ids) or max(ids, default=-1) >= saved["next_id"]:
        raise _damaged("the tickets in flight are invalid")


def _check_samples(saved: Mapping[str, Any]) -> None:
    """Check that every reported sample is pending or in the statistics."""
    pending, tally, dimension = saved["pending"], saved["tally"], saved["dimension"]
    if (saved["place"] is None) != (dimension is None):
        raise _damaged("dimension is invalid")
    for row in pending["rows"]:
        if np.shape(row) != (dimension,) or not np.isfinite(row).all():
            raise _damaged("a pending sample is invalid")
    for value in (*pending["quality"], *pending["cost"]):
        if value is not None and not _is_number(value):
            raise _damaged("the quality or cost of a pending sample is invalid")
    counts = [0] * len(saved["arms"]) if tally is None else tally["counts"]
    found = [count + pending["arms"].count(index) for index, count in enumerate(counts)]
    if found != list(saved["told"]) or len(pending["arms"]) != len(pending["rows"]):
        raise _damaged("the number of samples differs from the statistics")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_mixture(value: Any, arms: int) -> bool:
    """Return whether these are weights of this many arms, or None."""
    if value is None:
        return True
    weights = np.asarray(value, dtype=np.float64)
    return weights.shape == (arms,) and bool((weights >= 0).all()) and abs(weights.sum() - 1) < 1e-6


def _list_of(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(is_valid, value))


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


VALID: dict[str, Callable[[Any], bool]] = {
    "arms": _list_of(_is_text),
    "active": _list_of(lambda value: isinstance(value, bool)),
    "told": _list_of(_is_count),
    "failed": _list_of(_is_count),
    "in_flight": _list_of(_is_map),
    "next_id": _is_count,
    "solved_at": _is_count,
    "dimension": lambda value: value is None or (_is_count(value) and 0 < value <= MAX_DIMENSION),
    "place": lambda value: value is None or (_is_text(value) and bool(PLACES.match(value))),
    "encoder": lambda value: value is None or _is_text(value),
    "pending": _is_map,
    "tally": lambda value: value is None or _is_map(value),
    "rng": _is_map,
}
"""How to tell whether an entry of a state is valid by itself."""


# -- objectives and random generators ----------------------------------------------------------------


def saved_objectives(saved: Any, objective: Objective | None) -> tuple[Any, Any]:
    """Return the original objective and the objective with its bandwidths fixed.

    A state cannot contain functions, such as a custom kernel; these come from ``objective``.
    """
    described, resolved = from_plain(saved["objective"]), from_plain(saved["resolved"])
    if objective is not None:
        described, resolved = graft(described, objective), graft(resolved, objective)
    missing = has_missing(described)
    if missing is not None:
        raise InputError(
            f"the state does not contain the custom function {missing}, because functions cannot be saved; "
            "pass the same objective= again, including that function."
        )
    if objective is not None and described != objective:
        raise InputError(
            f"the state was saved with {described!r}; pass that objective, or omit it."
        )
    return described, resolved


def generator_from_seed(seed: int | np.random.Generator) -> np.random.Generator:
    try:
        return private_stream(seed, "selector")
    except (TypeError, ValueError) as error:
        raise InputError(
            f"seed is {seed!r}; pass a whole number of at least 0 or a numpy Generator."
        ) from error


def generator_from_state(state: Mapping[str, Any]) -> np.random.Generator:
    kind = getattr(np.random, state["bit_generator"], None)
    if not (isinstance(kind, type) and issubclass(kind, np.random.BitGenerator)):
        raise InputError(
            f"the state's random generator {state['bit_generator']!r} is unknown; "
            "resume with the numpy version that wrote it."
        )
    bits = kind()
    bits.state = dict(state)
    return np.random.Generator(bits)
