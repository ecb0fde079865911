"""Signals that arrive while Ray starts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from genmix.cluster import signals


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Interrupts that a handler which does not raise has received."""
    monkeypatch.setattr(signals, "was_interrupted", False)
    found: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: found.append(number))
    yield found
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_every_interrupt_reaches_the_handler(handled: list[int], count: int) -> None:
    with signals.own_signals():
        for _ in range(count):
            signal.raise_signal(signal.SIGINT)
        assert len(handled) == (count if count > 1 else 0)
    assert handled == [signal.SIGINT] * count
    assert not signals.was_interrupted


def test_an_error_of_ray_is_not_an_interrupt(handled: list[int]) -> None:

    def start() -> None:
        with signals.own_signals():
            signal.raise_signal(signal.SIGINT)
            raise OSError("no cluster")

    with pytest.raises(OSError, match="no cluster"):
        start()
    assert handled == [signal.SIGINT]
    assert not signals.was_interrupted


def test_the_second_interrupt_stops_the_start_if_the_handler_raises(handled: list[int]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    reached = []

    def start() -> None:
        with signals.own_signals():
            signal.raise_signal(signal.SIGINT)
            reached.append("after the first")
            signal.raise_signal(signal.SIGINT)
            reached.append("after the second")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached == ["after the first"]
    assert signals.was_interrupted


def test_the_handlers_are_restored(handled: list[int]) -> None:
    def ours(*_: Any) -> None: ...

    before = signal.signal(signal.SIGTERM, ours)
    try:
        with signals.own_signals():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)
    signal.raise_signal(signal.SIGINT)
    assert handled == [signal.SIGINT]
