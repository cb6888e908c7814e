"""Reference pages that are generated: of relations, and of findings."""
