"""Statistics of samples that are larger than memory."""
