"""Samples that people already have: files, folders and runs become labeled arms with embeddings."""

from genmix.data.loaded_arm import LoadedArm
from genmix.inputs.arms import load_arms, load_samples, split_name
from genmix.inputs.embedding import embed_arms, find_encoder

__all__ = ["LoadedArm", "embed_arms", "find_encoder", "load_arms", "load_samples", "split_name"]
