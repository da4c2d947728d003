"""The `leadout` script, and ``python -m leadout``: Ctrl-C ends it quietly even while it is still starting."""

import sys


def main() -> None:
    """Run the command line of this process, and exit with its code."""
    try:
        from leadout.cli.app import execute

        code = execute(sys.argv[1:])
    except KeyboardInterrupt:  # that of app.STOPPED, which may not be there yet
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
