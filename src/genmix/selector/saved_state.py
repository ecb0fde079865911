"""Save and load a selector, and validate the contents of a saved state."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from genmix.core import state
from genmix.core.description import from_plain, graft, has_missing
from genmix.errors import InputError
from genmix.objectives import Objective

STATE_VERSION = 2


class Savable(ABC):
    """An object whose state can be written to a file and read again."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]: ...

    @classmethod
    @abstractmethod
    def from_state_dict(
        cls, saved: Mapping[str, Any], objective: Objective | None = None
    ) -> Self: ...

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
        <Selector: MixtureGreedy for vendi, 2 arms, 0 samples>
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
            If the file is not a saved state, or its version is unknown.
        """
        return cls.from_state_dict(state.load(path), objective)


def saved_objectives(saved: Any, objective: Objective | None) -> tuple[Any, Any]:
    """Return the original objective and the objective with its bandwidths fixed.

    A state cannot contain functions, such as a custom kernel; these come from ``objective``.
    """
    if not isinstance(saved, Mapping) or "version" not in saved:
        raise InputError("this is not a saved selector state; pass what state_dict() returned.")
    if saved["version"] != STATE_VERSION:
        raise InputError(
            f"the state has version {saved['version']!r}, but this version of genmix reads only "
            f"{STATE_VERSION}; resume with the genmix version that wrote it."
        )
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
        return np.random.default_rng(seed)
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
