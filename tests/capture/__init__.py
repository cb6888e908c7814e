"""Capture, of small programs and of the examples."""
