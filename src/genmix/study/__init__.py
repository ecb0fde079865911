"""Studies: YAML files or dicts that describe a run, and their validation."""
