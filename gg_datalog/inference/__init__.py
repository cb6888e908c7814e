"""Facts in, a verdict and its result folder out."""
