"""Questions about a result, as SQL: one file each, described in its first lines."""
