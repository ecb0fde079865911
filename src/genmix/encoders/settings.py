"""What every encoder of a study may set."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from genmix.encoders.base import Encoder


class EncoderSettings(BaseModel):
    """Settings of the encoder; ``kind`` says which it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    needs: ClassVar[tuple[str, ...]] = ()
    """Modules that this kind imports beyond genmix's own dependencies."""
    extra: ClassVar[str] = ""
    """The extra of genmix that brings them."""

    normalise: bool = Field(False, description="Scale every embedding to unit length.")

    @abstractmethod
    def build(self, folder: Path) -> Encoder:
        """The encoder; paths are relative to ``folder``; bad settings raise InputError."""
