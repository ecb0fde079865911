"""Execute a study: the loop, the budget, results and exports."""
