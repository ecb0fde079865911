"""Fuzzing: whatever a file, a study or a journal contains, the outcome is a result or one sentence.

``make fuzz`` runs all targets at full size and prints a table; ``test_fuzz.py`` runs a few cases of each.
"""
