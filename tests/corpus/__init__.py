"""Whole cases, right and broken, through the command line."""
