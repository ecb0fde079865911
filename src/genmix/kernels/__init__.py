"""Kernels, their feature maps and bandwidths, sums over pairs, and nearest-neighbor balls."""
