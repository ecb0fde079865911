"""Experiments: policies compared on the same arms, and the paper's figures and tables."""
