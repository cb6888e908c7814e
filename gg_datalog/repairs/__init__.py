"""Repairs: one collective or scalar that would close the gap of a finding, tried out."""
