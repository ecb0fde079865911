"""Damage to bytes and to nested values, drawn by hypothesis."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

EDGES = (
    0,
    1,
    7,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**64 - 1,
)
"""Numbers at which formats and machines change their minds."""

Edit = Callable[[bytearray, int, int], None]
"""Changes bytes in place, at a position, according to a number."""


def _flip(data: bytearray, at: int, number: int) -> None:
    data[at] ^= 1 << number % 8


def _set(data: bytearray, at: int, number: int) -> None:
    data[at] = number % 256


def _write_edge(data: bytearray, at: int, number: int) -> None:
    size = (1, 2, 4, 8)[number % 4]
    value = EDGES[number // 4 % len(EDGES)] % 256**size
    data[at : at + size] = value.to_bytes(size, "little" if number % 3 else "big")


def _truncate(data: bytearray, at: int, number: int) -> None:
    del data[at:]


def _remove(data: bytearray, at: int, number: int) -> None:
    del data[at : at + 1 + number % 64]


def _insert(data: bytearray, at: int, number: int) -> None:
    data[at:at] = number.to_bytes(4, "little") * (1 + number % 4)


def _repeat(data: bytearray, at: int, number: int) -> None:
    data[at:at] = data[at : at + 1 + number % 200]


def _erase(data: bytearray, at: int, number: int) -> None:
    size = len(data[at : at + 1 + number % 100])
    data[at : at + size] = bytes(size)


def _change_digit(data: bytearray, at: int, number: int) -> None:
    """Change the next digit, e.g. in a header or in JSON."""
    for position in range(at, min(at + 100, len(data))):
        if 48 <= data[position] <= 57:
            data[position] = 48 + number % 10
            return


EDITS: tuple[Edit, ...] = (
    _flip,
    _set,
    _write_edge,
    _truncate,
    _remove,
    _insert,
    _repeat,
    _erase,
    _change_digit,
)

_edits = st.lists(
    st.tuples(st.sampled_from(EDITS), st.integers(0, 2**31), st.integers(0, 2**32 - 1)),
    min_size=1,
    max_size=4,
)
_junk = st.binary(max_size=200)
_is_junk = st.integers(0, 39)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with a few edits, mostly at the beginning and the end; sometimes other bytes."""
    if draw(_is_junk) == 39:
        return draw(_junk)
    data = bytearray(content)
    for edit, place, number in draw(_edits):
        if data:
            edit(data, _position(place, len(data)), number)
    return bytes(data)


def _position(place: int, size: int) -> int:
    region, offset = place % 3, place // 3
    margin = min(size, 300)
    if region == 0:
        return offset % margin
    return size - 1 - offset % margin if region == 1 else offset % size


# -- nested values -----------------------------------------------------------------------------------

VALUES = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            False,
            0,
            1,
            -1,
            0.5,
            -0.0,
            1e308,
            1e-320,
            float("nan"),
            float("inf"),
            2**63,
            10**400,
        ]
    ),
    st.sampled_from(["", "a", "\0", "\ud800", "é\u2028\n", "nan", "1e999", "x" * 5000]),
    st.sampled_from([[], {}, [[]], [None], [1, "a"], {"a": {}}, {"type": "map"}, {"__array__": 0}]),
    st.integers(-5, 5),
    st.text(max_size=5),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside a nested value."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [p for key, item in items for p in [(*path, key), *places(item, (*path, key))]]


def inside(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


@st.composite
def changed(draw: st.DrawFn, good: Any, values: st.SearchStrategy[Any] = VALUES) -> Any:
    """A copy of a nested value in which a few values are removed, replaced, moved or added."""
    found = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        known = places(found)
        if not known:
            break
        *where, key = known[draw(st.integers(0, 10**6)) % len(known)]
        holder = inside(found, tuple(where))
        change = draw(st.integers(0, 3))
        if change == 0:
            del holder[key]
        elif change == 1:
            holder[key] = copy.deepcopy(
                inside(found, known[draw(st.integers(0, 10**6)) % len(known)])
            )
        elif change == 2 and isinstance(holder, dict):
            holder[draw(st.sampled_from(["x", "kind", "type", "weights", str(key) + "s"]))] = (
                copy.deepcopy(holder[key])
            )
        else:
            holder[key] = copy.deepcopy(draw(values))
    return found
