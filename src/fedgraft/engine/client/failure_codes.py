"""Why a client failed, in a word of a fixed list: nothing of its data travels with an error.

The text of an error may hold paths, names and values. It stays with the client: in its log `fedgraft.client`, and,
where client and server are on one machine, with whoever runs them (`Served.reason`).
"""

import builtins
from typing import Final

from fedgraft.errors import BeyondLimitError, ClientError, DivergedError, UnknownRequestError, WireError

DIVERGED: Final = "diverged"
REFUSED: Final = "refused request"
UNKNOWN: Final = "unknown request"
UNABLE: Final = "cannot serve request"
BEYOND: Final = "beyond a limit of its site"
INTERNAL: Final = "internal error"
CODES: Final = (DIVERGED, REFUSED, UNKNOWN, UNABLE, BEYOND, INTERNAL)
"""Every code; the last may be followed by ": " and one of `CLASSES`."""
CLASSES: Final = tuple(
    sorted(name for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, Exception))
)
"""Names of Python's own exceptions. Those of other packages, which may be made from data, are told as their nearest."""


def code_of(error: Exception) -> str:
    """Return the code of what went wrong at a client, at most 64 ASCII characters."""
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
