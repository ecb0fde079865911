"""Find runs and read what each of them is doing, from another process."""
