"""Kernels, pairwise distances, blocked pair sums, and nearest-neighbor balls."""
