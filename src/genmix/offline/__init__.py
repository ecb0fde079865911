"""Mixtures and scores of samples that already exist."""
