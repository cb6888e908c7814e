"""The engines, on small programs."""
