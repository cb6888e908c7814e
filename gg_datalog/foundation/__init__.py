"""What everything else stands on: texts, files and folders that appear whole, locks, signals."""
