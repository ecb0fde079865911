"""The live dashboard: a list of all runs and a page for each run, updated in the browser."""
