"""The command, `fedgraft` and `python -m fedgraft`: what is told when a signal or a lack of memory ends it.

Nothing large is imported here, so that an end while all else is imported is one line too.
"""

import sys
from signal import SIGINT
from typing import NoReturn

from fedgraft.errors import memory_shortage
from fedgraft.runtimes.workers import signals

FAILED = 1
"""Exit code where the command cannot be loaded."""


def main() -> None:
    """Run the command `fedgraft`."""
    signals.handle(signals.interrupt)
    try:
        try:
            from fedgraft.interface.cli import main as command
        except (ImportError, OSError, MemoryError, SystemError) as error:  # the last of a library that lacks memory
            why = memory_shortage(error) or " ".join(str(error).split())
            _end(f"error: fedgraft cannot be loaded: {why}.", FAILED)
        command()
    except KeyboardInterrupt:
        _end(f"{signals.said(SIGINT)}.", 128 + SIGINT)
    except signals.Terminated as error:
        _end(f"{signals.said(error.number)}.", 128 + error.number)
    finally:
        signals.leave()


def _end(line: str, code: int) -> NoReturn:
    print(line, file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":  # a worker process imports this module too
    main()
