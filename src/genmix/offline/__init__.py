"""Optimal mixtures and scores of samples that already exist."""
