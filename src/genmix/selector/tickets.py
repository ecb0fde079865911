"""Tickets: one per sample to generate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from genmix.errors import InputError


@dataclass(frozen=True)
class Ticket:
    """One sample to generate.

    :meth:`Selector.ask` issues tickets. Pass each one, or its ``id``, to :meth:`Selector.tell` or
    :meth:`Selector.fail` exactly once.

    Attributes
    ----------
    id : int
        Number of the ticket, unique within its selector.
    arm : str
        Label of the arm to generate the sample with.
    weight : float
        Weight of the arm, in its group if there are groups, when the ticket was issued.
    propensity : float
        Probability with which the arm was chosen; 1 if the choice was not random.
    group : str or None
        Group of the prompt to use; None if the selector has no groups.

    Examples
    --------
    >>> import genmix as gx
    >>> sel = gx.Selector(["a", "b"], gx.Vendi(), seed=0)
    >>> sel.ask()
    [Ticket(id=0, arm='a', weight=0.5, propensity=1.0)]
    """

    id: int
    arm: str
    weight: float
    propensity: float
    group: str | None = None

    def __repr__(self) -> str:
        group = "" if self.group is None else f", group={self.group!r}"
        return (
            f"Ticket(id={self.id!r}, arm={self.arm!r}, weight={self.weight!r}, "
            f"propensity={self.propensity!r}{group})"
        )


def find_ticket(ticket: Ticket | int, in_flight: Mapping[int, Ticket], next_id: int) -> Ticket:
    """Return the ticket in flight that equals ``ticket`` or has that id."""
    number = ticket.id if isinstance(ticket, Ticket) else ticket
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise InputError(f"{ticket!r} is not a ticket; pass one that ask returned, or its id.")
    found = in_flight.get(int(number))
    if found is not None and (found == ticket or not isinstance(ticket, Ticket)):
        return found
    if found is None and 0 <= number < next_id:
        raise InputError(
            f"ticket {number} has already been told or failed; tell each ticket only once."
        )
    raise InputError(
        f"ticket {number} does not belong to this selector; pass a ticket that its ask returned."
    )


def saved_ticket(ticket: Ticket) -> dict[str, Any]:
    """Return the fields of a ticket; the group only if there is one."""
    return {name: value for name, value in asdict(ticket).items() if value is not None}
