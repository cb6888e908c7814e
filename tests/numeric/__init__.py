"""Programs that are executed: every relation that is derived is compared with numbers."""
