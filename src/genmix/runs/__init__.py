"""Execute a study: the loop, the budget, the journal, results and exports."""
