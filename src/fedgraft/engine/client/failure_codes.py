"""Why a client failed, as a code of `protocol.codes`: nothing of its data travels with an error."""

import builtins

from fedgraft.engine.protocol.codes import BEYOND, DIVERGED, INTERNAL, REFUSED, UNABLE, UNKNOWN
from fedgraft.errors import (
    BeyondLimitError,
    ClientError,
    DivergedError,
    RefusedError,
    UnknownRequestError,
    WireError,
)


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
