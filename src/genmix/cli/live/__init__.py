"""What a terminal or a notebook shows while a study runs."""
