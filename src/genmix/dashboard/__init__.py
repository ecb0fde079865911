"""The live dashboard: all runs at a glance, and each run as it happens, in a browser."""
