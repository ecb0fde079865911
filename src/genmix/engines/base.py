"""The protocol between a run and the place where its samples are generated and embedded."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Protocol

from genmix.encoders.base import Encoder, EncoderSettings
from genmix.generators.base import ArmSettings, Context, Generator


class Engine(Protocol):
    """Builds the arms and the encoder of a study from their settings.

    What it returns behaves like the arm or the encoder itself, wherever the work happens. The run loop,
    with its budget, retries, timeouts and journal, is the same for every engine.
    """

    @abstractmethod
    def generator(self, settings: ArmSettings, context: Context) -> Generator:
        """Build an arm; raise InputError if its settings are invalid."""

    @abstractmethod
    def encoder(self, settings: EncoderSettings, folder: Path) -> Encoder:
        """Build an encoder, with paths relative to ``folder``."""

    def close(self) -> None:
        """Disconnect, and stop what the engine has started. Closing again has no effect."""
        return
