"""``tell_all`` says what it expects, and leaves the selector as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import genmix as gx

EXPECTED = (
    "; pass a list of (ticket, embedding, quality, cost), with None for a number that a sample"
)
WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "dict": (lambda t: {t[0].id: [1.0, 0.0]}, "tell_all got a dict"),
    "text": (lambda t: "abcd", "tell_all got a str"),
    "ticket": (lambda t: t[0], "tell_all got a Ticket"),
    "number": (lambda t: 3, "tell_all got an int"),
    "none": (lambda t: None, "tell_all got a NoneType"),
    "tickets": (lambda t: t, "sample 0 of tell_all is a Ticket"),
    "one tuple": (lambda t: (t[0], [1.0, 0.0], None, None), "sample 0 of tell_all is a Ticket"),
    "rows": (lambda t: np.eye(4), "sample 0 of tell_all is a ndarray"),
    "pair": (lambda t: [(t[0], [1.0, 0.0])], "sample 0 of tell_all has 2 parts instead of 4"),
    "second": (
        lambda t: [(t[0], [1.0, 0.0], None, None), (t[1], [1.0, 0.0], None)],
        "sample 1 of tell_all has 3 parts instead of 4",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_a_list_of_samples_is_refused(case: str) -> None:
    make, words = WRONG[case]
    selector = gx.Selector(["a", "b"], gx.Vendi())
    tickets = selector.ask(2)
    with pytest.raises(gx.InputError) as refused:
        selector.tell_all(make(tickets))
    assert str(refused.value).startswith(f"{words}{EXPECTED}")
    assert selector.counts == {"a": 0, "b": 0}
    assert selector.in_flight == tuple(tickets)


def test_lists_and_generators_are_samples_too() -> None:
    selector = gx.Selector(["a", "b"], gx.Vendi())
    selector.tell_all([ticket, [1.0, 0.0], None, None] for ticket in selector.ask(2))
    assert selector.counts == {"a": 1, "b": 1}
