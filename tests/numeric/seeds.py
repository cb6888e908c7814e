"""How many random programs the tests run: of seeds that stay, and of fresh ones."""

FIXED, FRESH = 120, 100
