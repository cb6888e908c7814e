"""What the rules may and may not derive."""
