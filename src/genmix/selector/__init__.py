"""Decide which generator to draw from next: ask for tickets, report their samples, re-solve the mixture."""

from genmix.selector.selector import Selector
from genmix.selector.tickets import Ticket

__all__ = ["Selector", "Ticket"]
