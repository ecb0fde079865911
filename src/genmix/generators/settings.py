"""What every arm of a study may set, and what it is built with."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from genmix.generators.base import Generator


@dataclass(frozen=True)
class Context:
    """Where an arm stands: the folder that its paths are relative to, the study's seed, its label."""

    folder: Path
    seed: int
    arm: str

    def path(self, name: str | Path) -> Path:
        return (self.folder / Path(name).expanduser()).resolve()


class ArmSettings(BaseModel):
    """Settings of one arm; ``kind`` says which generator it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    needs: ClassVar[tuple[str, ...]] = ()
    """Modules that this kind imports beyond genmix's own dependencies."""
    extra: ClassVar[str] = ""
    """The extra of genmix that brings them."""

    concurrency: int = Field(1, ge=1, description="Calls of this arm that may run at a time.")
    batch: int = Field(1, ge=1, description="Samples asked for in one call at most.")

    @abstractmethod
    def build(self, context: Context) -> Generator:
        """The generator, ready to be asked; bad settings raise InputError."""
