"""Samples that people already have: files, folders and runs become labeled arms with embeddings."""

from genmix.data.loaded_arm import LoadedArm
from genmix.inputs.arms import common_encoder, load_arms, load_samples, split_name
from genmix.inputs.embedding import embed_arms, find_encoder

__all__ = [
    "LoadedArm",
    "common_encoder",
    "embed_arms",
    "find_encoder",
    "load_arms",
    "load_samples",
    "split_name",
]
