"""Samples, feature files and references: what comes in from outside, validated."""
