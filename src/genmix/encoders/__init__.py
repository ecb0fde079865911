"""Encoders, which embed samples. Each kind has its own file; heavy libraries are loaded on first use."""

from genmix.core.plugins import Plugin, find_plugins, kind_of, plugin_classes
from genmix.encoders.base import (
    BatchEncoder,
    Encoder,
    EncoderSettings,
    EncodingError,
    images_of,
    texts_of,
)
from genmix.encoders.cache import CachedEncoder, cache_folder
from genmix.encoders.callable import CallableSettings
from genmix.encoders.inception import InceptionSettings
from genmix.encoders.openai import OpenAISettings
from genmix.encoders.pixels import PixelsSettings
from genmix.encoders.precomputed import PrecomputedSettings
from genmix.encoders.sentence_transformers import SentenceTransformersSettings
from genmix.encoders.vision import ClipSettings, DinoV2Settings

ENCODER_KINDS: tuple[type[EncoderSettings], ...] = (
    SentenceTransformersSettings,
    DinoV2Settings,
    ClipSettings,
    InceptionSettings,
    PixelsSettings,
    PrecomputedSettings,
    CallableSettings,
    OpenAISettings,
)
"""Settings classes for the built-in kinds of encoders."""


def encoder_plugins() -> tuple[Plugin, ...]:
    """Return the encoders that installed packages add."""
    return find_plugins("genmix.encoders", EncoderSettings, frozenset(map(kind_of, ENCODER_KINDS)))


def encoder_kinds() -> tuple[type[EncoderSettings], ...]:
    """Return the settings classes of all kinds, including those from installed packages."""
    return (*ENCODER_KINDS, *plugin_classes(encoder_plugins()).values())


__all__ = [
    "ENCODER_KINDS",
    "BatchEncoder",
    "CachedEncoder",
    "Encoder",
    "EncoderSettings",
    "EncodingError",
    "cache_folder",
    "encoder_kinds",
    "encoder_plugins",
    "images_of",
    "texts_of",
]
