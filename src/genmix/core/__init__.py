"""What everything else stands on: arrays, descriptions, atomic files, saved state, text."""
