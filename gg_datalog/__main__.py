"""``python -m gg_datalog``."""

from gg_datalog.cli import main

if __name__ == "__main__":
    main()
