"""Generators: what makes the samples of an arm, one file a kind."""

from genmix.data.samples import Request, Sample
from genmix.generators.base import GenerationError, Generator
from genmix.generators.callable import CallableArm
from genmix.generators.command import CommandArm
from genmix.generators.diffusers import DiffusersArm
from genmix.generators.openai import OpenAIArm
from genmix.generators.recorded import RecordedArm
from genmix.generators.settings import ArmSettings, Context
from genmix.generators.transformers import TransformersArm

ARM_KINDS: tuple[type[ArmSettings], ...] = (
    CallableArm,
    RecordedArm,
    CommandArm,
    OpenAIArm,
    TransformersArm,
    DiffusersArm,
)
"""The settings of every kind of arm; ``kind`` tells them apart."""

__all__ = [
    "ARM_KINDS",
    "ArmSettings",
    "CallableArm",
    "CommandArm",
    "Context",
    "DiffusersArm",
    "GenerationError",
    "Generator",
    "OpenAIArm",
    "RecordedArm",
    "Request",
    "Sample",
    "TransformersArm",
]
