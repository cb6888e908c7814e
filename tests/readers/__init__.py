"""Readers of other graphs."""
