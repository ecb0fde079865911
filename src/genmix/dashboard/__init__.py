"""The live page: many runs at a glance, each of them as it happens, in a browser."""
