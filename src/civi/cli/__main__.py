"""The entry point of `civi`, also as `python -m civi.cli`. Interrupts are handled before anything slow is imported."""

from civi import interrupts


def main() -> None:
    """Run the command line."""
    with interrupts.handled():
        try:
            interrupts.begin()
            from civi.cli.main import main as run  # noqa: PLC0415 start-up time

            run()
        except interrupts.Interrupted:
            interrupts.leave(interrupts.acknowledge())
        except SystemExit as ended:
            if interrupts.was_interrupted():
                interrupts.leave(code=ended.code if isinstance(ended.code, int) else 1)
            raise


if __name__ == "__main__":
    main()
