"""Convex losses on the simplex, and solvers that minimize them and certify the result."""
