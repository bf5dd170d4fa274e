"""Run `civi` as `python -m civi.cli`."""

from civi.cli.main import main

if __name__ == "__main__":
    main()
