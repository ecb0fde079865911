"""Check the shape of what ``Selector.tell_all`` is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from genmix.errors import InputError

FIELDS = ("ticket", "embedding", "quality", "cost")
EXPECTED = (
    f"pass a list of ({', '.join(FIELDS)}), with None for a number that a sample does not have"
)


def sample_tuples(samples: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Iterate over samples; raise InputError if one is not a tuple of four."""
    if isinstance(samples, Mapping | str | bytes) or not isinstance(samples, Iterable):
        raise InputError(f"tell_all got {_kind(samples)}; {EXPECTED}.")
    for place, sample in enumerate(samples):
        if not isinstance(sample, tuple | list):
            raise InputError(f"sample {place} of tell_all is {_kind(sample)}; {EXPECTED}.")
        if len(sample) != len(FIELDS):
            raise InputError(
                f"sample {place} of tell_all has {len(sample)} parts instead of {len(FIELDS)}; {EXPECTED}."
            )
        ticket, embedding, quality, cost = sample
        yield ticket, embedding, quality, cost


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
