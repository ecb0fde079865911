"""The one exception that bad input raises."""

from __future__ import annotations


class InputError(ValueError):
    """One sentence: what was wrong, where, and what to do. Nothing has changed when it is raised."""
