"""What the arms contribute to a mixture: leave-one-out, innovation, evidence, verdicts."""
