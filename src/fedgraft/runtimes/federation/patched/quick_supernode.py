"""Flower's SuperNode, without its long sleeps, and whole where a run or its SuperLink ends; a program of its own.

A SuperNode that has found no message sleeps for three seconds, and no option says otherwise. Here the SuperLink makes
it wait (`long_polls`). One that has a message waits for its answer without end, and fetches nothing meanwhile: here it
ends where nobody is at work on an answer, and the node begins another one.
"""

import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, Final, ParamSpec, TypeVar

import httpx
from flwr.common.constant import Status
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.protobuf import client
from flwr.supercore.run import RunNotRunningException
from flwr.supernode import fleet_http_connection, start_client_internal
from flwr.supernode.cli import flower_supernode

from fedgraft.runtimes.federation.child import ANEW, UNANSWERED

POLL_SECONDS: Final = 0.05
"""Seconds between two looks for messages, and for their answers."""
ERROR_SECONDS: Final = 1.0
"""Seconds until the next look after an error of the SuperLink."""
WORK_SECONDS: Final = 1.0
"""Seconds between two looks whether anybody is at work on an answer that is late."""
CONNECTION_SECONDS: Final = 600.0
"""How long a connection stays open that is not used; by default five seconds, and a new one is 4 kB."""
AT_WORK: Final = (Status.PENDING, Status.STARTING, Status.RUNNING)
"""What a task is that may still have an answer; without signs of life Flower ends it after a minute."""

Given = ParamSpec("Given")
Found = TypeVar("Found")


class Unanswered(BaseException):
    """A message is held whose answer nobody is at work on; no `Exception`, after which Flower's loop would go on."""


def main() -> None:
    """Run the SuperNode with the arguments of `flower-supernode`."""
    patience = Patience(float(os.environ.get(UNANSWERED, "0")))
    quick = SimpleNamespace(**vars(time))
    quick.sleep = patience.sleep
    of_flower = start_client_internal.__dict__
    of_flower["time"] = quick
    of_flower["_pull_and_store_message"] = receiving(of_flower["_pull_and_store_message"])
    of_flower["_push_messages"] = answering(of_flower["_push_messages"], patience)
    fleet_http_connection.__dict__["HeartbeatSender"] = lambda beat: HeartbeatSender(lasting(beat))
    limits = httpx.Limits(keepalive_expiry=CONNECTION_SECONDS)
    client.__dict__["httpx"] = SimpleNamespace(**{**vars(httpx), "Client": partial(httpx.Client, limits=limits)})
    code = ANEW  # also where it returns: Flower logs an error of its loop, and leaves a process that fetches nothing
    try:
        flower_supernode()
    except Unanswered as error:
        print(error, file=sys.stderr)
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)  # the threads of its interface would keep the process


class Patience:
    """The sleeps of a SuperNode, which are short, and end where it waits for an answer that will not come.

    It waits as long as a task is open: somebody is at work on it, and says so every few seconds. Time alone ends
    nothing, for a client may train for an hour; `limits.seconds` of the site bounds that.

    Args:
        seconds: how long a message is held at least until that is looked at, >= 0; 0 = for ever.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._state: Any = None
        self._look, self._idle = math.inf, False

    @contextmanager
    def waiting(self, state: Any) -> Iterator[None]:
        """A block in which a message waits for its answer."""
        self._state, self._idle = state, False
        self._look = time.monotonic() + self._seconds if self._seconds else math.inf
        try:
            yield
        finally:
            self._look = math.inf

    def sleep(self, seconds: float) -> None:
        """Sleep for so many seconds, or less. Raises `Unanswered` where no task is open at two looks."""
        time.sleep(min(seconds, POLL_SECONDS))
        if time.monotonic() < self._look:
            return
        self._look = time.monotonic() + WORK_SECONDS
        was_idle, self._idle = self._idle, not self._state.get_tasks(statuses=AT_WORK)
        if was_idle and self._idle:  # at one look the answer may just have come
            raise Unanswered(f"a message is held for {self._seconds:g} s, and nobody is at work on its answer")


def receiving(pull: Callable[..., int | None]) -> Callable[..., int | None]:
    """Return Flower's function that fetches a message, of which here nothing is left unless all of it has come.

    Flower gives a message to be answered before its content is there, and takes back what it has noted of it for every
    `Exception`, which the end of a run is none of; an answer that was made meanwhile stays in any case. It would be
    sent in place of the next one, which then waits for the message after it, and so on: each answer a message late. An
    error of the SuperLink, such as one that is ending, is no message; Flower's SuperNode would look for none after it.
    """

    @wraps(pull)
    def fetch(**parts: Any) -> int | None:
        for name in ("pull_object", "confirm_message_received"):
            parts[name] = _failing(parts[name])
        parts["state"].delete_messages()
        state = _Withholding(parts["state"])
        try:
            run = pull(**{**parts, "state": state})
        except httpx.HTTPStatusError as error:
            if not error.response.is_server_error:
                raise
            print(error, file=sys.stderr)
            time.sleep(ERROR_SECONDS)
            return None
        if run is not None:
            state.give_out()
        return run

    return fetch


class _Withholding:
    """A SuperNode's state that keeps a message's task back until all of the message is there."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._task: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def create_task(self, **task: Any) -> int:
        self._task = task
        return 1  # no more than the sign that there is one

    def finish_task(self, *task: Any, **named: Any) -> None:
        """End a task that nobody was given."""

    def give_out(self) -> None:
        if self._task:
            self._state.create_task(**self._task)


def answering(push: Callable[..., None], patience: Patience) -> Callable[..., None]:
    """Return Flower's function that sends the next answer, which here ends when the message at hand has its own.

    What is sent before may be the late answer to another one.
    """

    @wraps(push)
    def send(**parts: Any) -> None:
        with patience.waiting(parts["state"]):
            while parts["state"].msg_store:
                push(**parts)

    return send


def lasting(beat: Callable[[], bool]) -> Callable[[], bool]:
    """Return a node's sign of life, which fails and is tried again where the SuperLink answers with an error.

    After any error but a lost connection Flower's SuperNode would give no more of them, and be taken for one that has
    left, whatever it answers.
    """

    @wraps(beat)
    def tried() -> bool:
        try:
            return beat()
        except (httpx.HTTPStatusError, RuntimeError) as error:
            print(error, file=sys.stderr)
            return False

    return tried


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
