"""A study: a YAML file or a dict, validated."""
