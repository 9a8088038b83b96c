"""Flower's SuperNode, without its long sleeps; a program of its own.

A SuperNode that has found no message sleeps for three seconds, and no option says otherwise. Here the SuperLink makes
it wait (`long_polls`).
"""

import time
from types import SimpleNamespace
from typing import Final

from flwr.supernode import start_client_internal
from flwr.supernode.cli import flower_supernode

POLL_SECONDS: Final = 0.05
"""Seconds between two looks for messages, and for their answers."""


def main() -> None:
    """Run the SuperNode with the arguments of `flower-supernode`."""
    quick = SimpleNamespace(**vars(time))
    quick.sleep = lambda seconds: time.sleep(min(seconds, POLL_SECONDS))
    start_client_internal.__dict__["time"] = quick
    flower_supernode()


if __name__ == "__main__":
    main()
