"""A console whose reader may leave, as in ``genmix run study.yaml 2>&1 | head``."""

from __future__ import annotations

from rich.console import Console

from genmix.core.closed_pipe import discard


class LastingConsole(Console):
    """Drops its output once nobody reads it, where rich would exit and with it end a run that costs money."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard(self.file)
