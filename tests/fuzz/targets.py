"""All targets."""

from __future__ import annotations

from tests.fuzz import files, runs

TARGETS = [*files.TARGETS, *runs.TARGETS]
