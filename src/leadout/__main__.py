"""``python -m leadout`` is ``leadout``."""

from leadout.cli.app import main

if __name__ == "__main__":
    main()
