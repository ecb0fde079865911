"""The selector: ask for tickets, tell their samples, and re-solve the mixture in between."""

from genmix.selector.selector import Selector, Ticket

__all__ = ["Selector", "Ticket"]
