"""The local engine: arms and encoders work in this process, in threads and child processes."""

from __future__ import annotations

from pathlib import Path

from genmix.encoders.base import Encoder, EncoderSettings
from genmix.engines.base import Engine
from genmix.generators.base import ArmSettings, Context, Generator


class LocalEngine(Engine):
    """Builds everything in this process."""

    def generator(self, settings: ArmSettings, context: Context) -> Generator:
        return settings.build(context)

    def encoder(self, settings: EncoderSettings, folder: Path) -> Encoder:
        return settings.build(folder)
