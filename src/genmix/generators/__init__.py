"""Generators, which produce an arm's samples. Each kind has its own file."""

from genmix.core.plugins import Plugin, find_plugins, kind_of, plugin_classes
from genmix.data.samples import Request, Sample
from genmix.generators.base import (
    ArmSettings,
    Context,
    GenerationError,
    Generator,
    Outcome,
    Outcomes,
    collect,
)
from genmix.generators.callable import CallableArm
from genmix.generators.command import CommandArm
from genmix.generators.diffusers import DiffusersArm
from genmix.generators.openai import OpenAIArm
from genmix.generators.recorded import RecordedArm
from genmix.generators.transformers import TransformersArm

ARM_KINDS: tuple[type[ArmSettings], ...] = (
    CallableArm,
    RecordedArm,
    CommandArm,
    OpenAIArm,
    TransformersArm,
    DiffusersArm,
)
"""Settings classes for the built-in kinds of arms."""


def arm_plugins() -> tuple[Plugin, ...]:
    """Return the generators that installed packages add."""
    return find_plugins("genmix.generators", ArmSettings, frozenset(map(kind_of, ARM_KINDS)))


def arm_kinds() -> tuple[type[ArmSettings], ...]:
    """Return the settings classes of all kinds, including those from installed packages."""
    return (*ARM_KINDS, *plugin_classes(arm_plugins()).values())


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
    "Outcome",
    "Outcomes",
    "RecordedArm",
    "Request",
    "Sample",
    "TransformersArm",
    "arm_kinds",
    "arm_plugins",
    "collect",
]
