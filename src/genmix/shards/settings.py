"""How shards are processed: where, by how many workers, and what is shown meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from genmix.core.atomic import cache_folder
from genmix.errors import InputError, whole

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Streaming:
    """The settings that :func:`streaming` sets."""

    workers: int | None = None
    engine: str = "local"
    address: str | None = None
    progress: Callable[[str, int, int], None] = lambda title, done, total: None
    folder: Path | None = None

    @property
    def place(self) -> Path:
        """The folder for partial statistics and unpacked shards."""
        return cache_folder() / "shards" if self.folder is None else self.folder


_DEFAULT = Streaming()
_CURRENT: ContextVar[Streaming] = ContextVar("streaming")


def current() -> Streaming:
    return _CURRENT.get(_DEFAULT)


@contextmanager
def streaming(
    *,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Iterator[None]:
    """Set how :class:`Shards` are processed inside a ``with`` block.

    Parameters
    ----------
    workers : int, optional
        Number of worker processes, or of Ray tasks at a time; one per core by default.
    engine : {"local", "ray"}, default "local"
        ``"ray"`` summarizes the shards in tasks on a Ray cluster, whose machines must find the files under
        the same paths. It needs the extra ``ray``. :func:`keep` always runs in this process.
    address : str, optional
        Address of the Ray cluster. Default: the one that this process is connected to, or
        ``$RAY_ADDRESS``, or one that is started on this machine and stopped at the end.
    progress : callable, optional
        Called with a title, the number of finished shards, and their total. Shards that together take
        at most 256 MiB as float64 are loaded into memory without progress messages, unless the engine is Ray.
    folder : str or path, optional
        Where partial statistics are saved, so that an interrupted computation continues where it stopped,
        and where :func:`keep` unpacks files. By default, ``shards`` in the cache folder
        (``$GENMIX_CACHE``).

    Raises
    ------
    InputError
        If a setting is invalid.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import genmix as gx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(pathlib.Path(folder) / "part-0.npy", np.eye(2))
    ...     np.save(pathlib.Path(folder) / "part-1.npy", np.eye(2))
    ...     with gx.streaming(workers=1, progress=print):
    ...         mix = gx.optimal_mixture({"a": gx.Shards(folder)}, gx.Vendi())
    >>> round(mix.score, 3)
    2.0
    """
    if engine not in ENGINES:
        raise InputError(f"engine is {engine!r}; pass one of {', '.join(ENGINES)}.")
    if address is not None and engine != "ray":
        raise InputError(
            "an address is only used with Ray, but the engine is local; use the ray engine, or remove the "
            "address."
        )
    token = _CURRENT.set(
        Streaming(
            None if workers is None else whole(workers, "workers", 1),
            engine,
            address,
            Streaming.progress if progress is None else progress,
            None if folder is None else Path(folder),
        )
    )
    try:
        yield
    finally:
        _CURRENT.reset(token)
