"""Convex losses on the simplex, the solvers that minimize them, and the certificate."""
