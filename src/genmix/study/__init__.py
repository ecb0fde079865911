"""Studies: a validated file, a journal of everything that was paid for, and the loop between them."""
