"""Adapters that turn samples into vectors, one file a kind; each loads its libraries when it is used."""

from genmix.encoders.cache import CachedEncoder, cache_folder
from genmix.encoders.callable import CallableEncoder
from genmix.encoders.inception import InceptionEncoder
from genmix.encoders.openai import OpenAIEncoder
from genmix.encoders.pixels import PixelsEncoder
from genmix.encoders.precomputed import PrecomputedEncoder
from genmix.encoders.sentence_transformers import SentenceTransformersEncoder
from genmix.encoders.vision import ClipEncoder, DinoV2Encoder

ENCODER_KINDS = (
    SentenceTransformersEncoder,
    DinoV2Encoder,
    ClipEncoder,
    InceptionEncoder,
    PixelsEncoder,
    PrecomputedEncoder,
    CallableEncoder,
    OpenAIEncoder,
)

__all__ = ["ENCODER_KINDS", "CachedEncoder", "cache_folder"]
