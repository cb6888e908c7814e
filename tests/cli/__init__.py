"""The command line, on small cases."""
