"""The record of a run: one SQLite file in the run folder that contains everything that was paid for."""
