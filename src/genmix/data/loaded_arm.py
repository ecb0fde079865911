"""The samples of one arm that already exist, with everything their source says about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.arrays import Array
from genmix.data.png import read_as_png
from genmix.data.samples import FieldError, Sample
from genmix.data.shards import Shards
from genmix.errors import InputError

Item = tuple[str, Callable[[], Sample]]
"""The location of a sample, for messages, and a function that reads it."""

COLUMNS = (
    "features",
    "prompt_features",
    "prompts",
    "texts",
    "images",
    "quality",
    "cost",
    "sample_ids",
)
LARGEST_ID = 2**63


@dataclass(frozen=True, eq=False)
class LoadedArm:
    """The samples of one arm, as columns of equal length.

    A column that the source does not have is None. At least one of ``features``, ``texts`` and
    ``images`` is present. Row ``i`` of every column describes the same sample, in the order of the
    source, so that a command can choose rows and write the original samples back.

    Attributes
    ----------
    label : str
        The name of the arm.
    source : str
        The file or folder that the samples were read from, for messages.
    features : array of shape (n, d) or Shards, optional
        The embeddings. None for texts and images that have not been embedded yet.
    prompt_features : array of shape (n, p), optional
        The embeddings of the prompts, for runs that embedded them.
    prompts : list of str, optional
        The prompts that the samples answer.
    texts : list of str, optional
        The texts.
    images : list of Path, optional
        The image files.
    quality, cost : array of shape (n,), optional
        The quality and the cost of every sample. None if the source does not have it for each of them.
    sample_ids : list of int or list of str, optional
        Identifiers as the source has them: ``sample_id`` in a run or a table.
    encoder : str, optional
        The name of the encoder that computed ``features``, if it is known.
    generator : str, optional
        What identifies the generator of an arm of a run: its settings with resolved paths, as JSON. Arms
        of several runs with equal labels and equal generators are one arm.
    missing : dict
        By column, where the first sample without a quality or cost is, if other samples have one.
    """

    label: str
    source: str
    features: Array | None = None
    prompt_features: Array | None = None
    prompts: Sequence[str] | None = None
    texts: Sequence[str] | None = None
    images: Sequence[Path] | None = None
    quality: Any = None
    cost: Any = None
    sample_ids: Sequence[int] | Sequence[str] | None = None
    encoder: str | None = None
    generator: str | None = None
    missing: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(column for column in self._columns().values() if column is not None))

    @property
    def content(self) -> str:
        """What the samples are: ``texts``, ``images`` or ``features``."""
        if self.texts is not None:
            return "texts"
        return "images" if self.images is not None else "features"

    def items(self) -> Iterator[Item]:
        """Iterate over the texts or images, for an encoder."""
        for row, text in enumerate(self.texts or ()):
            yield f"sample {row}", _text_reader(text)
        if self.texts is None:
            for file in self.images or ():
                yield file.name, _image_reader(file)

    def take(self, rows: Sequence[int]) -> LoadedArm:
        """Return the samples in these rows, in this order."""
        picked: dict[str, Any] = {
            name: _taken(column, rows)
            for name, column in self._columns().items()
            if column is not None
        }
        if isinstance(self.features, Shards):
            picked |= {
                name: self.features.column(field, np.asarray(rows))
                for name, field in (("texts", "text"), ("prompts", "prompt"))
            }
            picked["sample_ids"] = same_kind(self.features.column("sample_id", np.asarray(rows)))
        return replace(self, **picked)

    def joined(self, other: LoadedArm) -> LoadedArm:
        """Return the samples of both; a column that one of them lacks is dropped."""
        mine, theirs = self._columns(), other._columns()
        both = {name: _joined(mine[name], theirs[name]) for name in COLUMNS}
        both["sample_ids"] = same_kind(both["sample_ids"])
        return replace(self, **both, encoder=self.encoder or other.encoder)

    def _columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in COLUMNS}


def same_kind(ids: Sequence[Any] | None) -> list[int] | list[str] | None:
    """Return identifiers as whole numbers if all of them are, otherwise as text; None if any is missing."""
    if ids is None or None in ids:
        return None
    if all(type(each) is int and abs(each) < LARGEST_ID for each in ids):
        return list(ids)
    return list(map(str, ids))


def _taken(column: Any, rows: Sequence[int]) -> Any:
    if isinstance(column, Shards):
        return column.take(np.asarray(rows))
    if isinstance(column, np.ndarray):
        return column[np.asarray(rows)]
    return [column[row] for row in rows]


def _joined(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return None
    if isinstance(first, np.ndarray):
        return np.concatenate([first, second])
    return [*first, *second]


def _text_reader(text: str) -> Callable[[], Sample]:
    return lambda: Sample(text=text)


def _image_reader(file: Path) -> Callable[[], Sample]:
    def read() -> Sample:
        try:
            return Sample(image=read_as_png(file))
        except FieldError as error:
            raise InputError(f"{file} {error}; replace or remove it.") from None

    return read
