"""Replay: programs executed beside what is derived of them."""
