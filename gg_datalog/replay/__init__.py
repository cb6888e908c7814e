"""Both programs of a case, executed and compared (needs torch)."""
