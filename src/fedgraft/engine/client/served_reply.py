"""The answer of a client to a request."""

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fedgraft.engine.client.client_memory import Kept
from fedgraft.engine.protocol.codes import BEYOND, DIVERGED, INTERNAL, REFUSED, UNABLE, UNKNOWN
from fedgraft.errors import (
    BeyondLimitError,
    ClientError,
    DivergedError,
    RefusedError,
    UnknownRequestError,
    WireError,
)
from fedgraft.wire.layouts import Arrays, finite

Value = TypeVar("Value")


class Latest(Generic[Value]):
    """A value made from the latest object: many clients in turn are served the same request or model."""

    def __init__(self) -> None:
        self._source: object = None
        self._value: Value | None = None

    def of(self, source: object, make: Callable[[], Value]) -> Value:
        """Return the value of `source`, made only if it is another object than the last."""
        if source is not self._source or self._value is None:
            self._value = make()
            self._source = source
        return self._value


def sound(model: Arrays) -> Arrays:
    """Return a model as it was received. Raises `WireError` where it is not finite.

    Whether such a model breaks depends on the data: what comes of it would tell of them.
    """
    for name, array in model.items():
        if not finite(array):
            raise WireError(f"{name} of the model is not finite")
    return model


def code_of(error: Exception) -> str:
    """Return the code of what went wrong at a client, at most 64 ASCII characters."""
    if isinstance(error, RefusedError):
        return error.code
    if isinstance(error, DivergedError):
        return DIVERGED
    if isinstance(error, BeyondLimitError):
        return BEYOND
    if isinstance(error, UnknownRequestError):
        return UNKNOWN
    if isinstance(error, WireError):
        return REFUSED
    if isinstance(error, ClientError):
        return UNABLE
    own = next(each.__name__ for each in type(error).__mro__ if vars(builtins).get(each.__name__) is each)
    return f"{INTERNAL}: {own}"


@dataclass(frozen=True)
class ServedReply:
    """The answer of a client to a request.

    Args:
        reply: an encoded message.
        memory: what the client remembers; the very object that was given if nothing changed.
        keep: whether the request must be kept, to be handed to whoever serves this client next (`set_up`).
        flops: operations that it took.
        waits: whether the client's round waits here for rows.
        reason: why the reply is an error, in words that stay on the client's machine; "" for any other.
    """

    reply: bytes
    memory: Kept
    keep: bool = False
    flops: int = 0
    waits: bool = False
    reason: str = ""
