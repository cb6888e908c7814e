"""The configuration file and baselines."""
