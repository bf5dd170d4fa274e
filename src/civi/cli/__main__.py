"""`python -m civi.cli` is `civi`."""

from civi.cli.main import main

if __name__ == "__main__":
    main()
