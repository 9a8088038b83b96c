"""The command, `fedgraft` and `python -m fedgraft`: what is told when a signal ends it.

Nothing large is imported here, so that an end while all else is imported is one line too.
"""

import sys
from signal import SIGINT
from typing import NoReturn

from fedgraft.runtimes.workers import signals


def main() -> None:
    """Run the command `fedgraft`."""
    signals.handle(signals.interrupt)
    try:
        from fedgraft.interface.cli import main as command  # whose libraries take a while, too

        command()
    except KeyboardInterrupt:
        _end(f"{signals.text_of(SIGINT)}.", 128 + SIGINT)
    except signals.Terminated as error:
        _end(f"{signals.text_of(error.number)}.", 128 + error.number)
    finally:
        signals.leave()


def _end(line: str, code: int) -> NoReturn:
    print(line, file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":  # a worker process imports this module too
    main()
