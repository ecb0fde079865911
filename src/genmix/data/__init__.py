"""Samples, feature files and references: validated input data."""
