"""What the commands on existing samples share: their options, inputs and checks."""
