"""What the commands do, and the Python interface beside them: one module for each."""
