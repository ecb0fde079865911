"""Connect to a Ray cluster, and describe what its workers need."""
