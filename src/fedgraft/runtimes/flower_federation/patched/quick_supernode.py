"""Flower's SuperNode, without its long sleeps, and whole where a run ends; a program of its own.

A SuperNode that has found no message sleeps for three seconds, and no option says otherwise. Here the SuperLink makes
it wait (`long_polls`).
"""

import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, Final, ParamSpec, TypeVar

import httpx
from flwr.supercore.protobuf import client
from flwr.supercore.run import RunNotRunningException
from flwr.supernode import start_client_internal
from flwr.supernode.cli import flower_supernode

POLL_SECONDS: Final = 0.05
"""Seconds between two looks for messages, and for their answers."""
ERROR_SECONDS: Final = 1.0
"""Seconds until the next look after an error of the SuperLink."""
CONNECTION_SECONDS: Final = 600.0
"""How long a connection stays open that is not used; by default five seconds, and a new one is 4 kB."""

Given = ParamSpec("Given")
Found = TypeVar("Found")


def main() -> None:
    """Run the SuperNode with the arguments of `flower-supernode`."""
    quick = SimpleNamespace(**vars(time))
    quick.sleep = lambda seconds: time.sleep(min(seconds, POLL_SECONDS))
    of_flower = start_client_internal.__dict__
    of_flower["time"] = quick
    of_flower["_pull_and_store_message"] = receiving(of_flower["_pull_and_store_message"])
    limits = httpx.Limits(keepalive_expiry=CONNECTION_SECONDS)
    client.__dict__["httpx"] = SimpleNamespace(**{**vars(httpx), "Client": partial(httpx.Client, limits=limits)})
    try:
        flower_supernode()
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # the threads of its interface would keep a process that fetches no message any more


def receiving(pull: Callable[..., int | None]) -> Callable[..., int | None]:
    """Return Flower's function that fetches a message, which here forgets one whose run ends meanwhile.

    Flower takes back what it has noted of a message for every `Exception`, and the end of a run is none. The message
    would be answered, that answer be sent in place of the next one, and so on: each answer a message late. An error of
    the SuperLink, such as one that is ending, is no message; Flower's SuperNode would look for none after it.
    """

    @wraps(pull)
    def fetch(**parts: Any) -> int | None:
        for name in ("pull_object", "confirm_message_received"):
            parts[name] = _failing(parts[name])
        try:
            return pull(**parts)
        except httpx.HTTPStatusError as error:
            if not error.response.is_server_error:
                raise
            print(error, file=sys.stderr)
            time.sleep(ERROR_SECONDS)
            return None

    return fetch


def _failing(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Return a function to which the end of a run is an error like any other."""

    @wraps(function)
    def call(*arguments: Given.args, **named: Given.kwargs) -> Found:
        try:
            return function(*arguments, **named)
        except RunNotRunningException as error:
            raise RuntimeError("its run has ended") from error

    return call


if __name__ == "__main__":
    main()
