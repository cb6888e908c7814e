"""Capture of sequential and distributed programs with torch, on one CPU and without a cluster."""
