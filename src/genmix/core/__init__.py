"""Shared foundations: arrays, descriptions, atomic files, saved state, text formatting."""
