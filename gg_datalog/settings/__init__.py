"""The configuration file, severities and baselines."""
