"""Comparing policies on the same arms with paired seeds."""
