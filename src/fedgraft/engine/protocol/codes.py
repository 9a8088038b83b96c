"""Why a site failed or refused, in a word of a fixed list: nothing of its data, paths or names travels with an error.

The text of an error may hold paths, names and values. It stays at the site: in its logs `fedgraft.client` and
`fedgraft.node`, and in its audit log. Where client and server are on one machine, whoever runs them reads it, too
(`ServedReply.reason`).
"""

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fedgraft.errors import FedgraftError, RefusedError

DIVERGED: Final = "diverged"
REFUSED: Final = "refused request"
UNKNOWN: Final = "unknown request"
UNABLE: Final = "cannot serve request"
BEYOND: Final = "beyond a limit of its site"
INTERNAL: Final = "internal error"
CODES: Final = (DIVERGED, REFUSED, UNKNOWN, UNABLE, BEYOND, INTERNAL)
"""Codes of a message of kind "error"; the last may be followed by ": " and one of `CLASSES`."""

RECIPE: Final = "recipe refused"
POLICY: Final = "policy forbids"
DATA: Final = "data do not fit"
SECRET: Final = "secret is missing"
KEYS: Final = "keys refused"
LOG: Final = "log refused"
ANOTHER: Final = "another client"
SERVED: Final = "round was served"
OUTSIDE: Final = "round is none of the run"
CHANGED: Final = "answer has changed"
SET_UP: Final = "another set-up message"
SPENT: Final = "privacy is spent"
MATCHED: Final = "ids were matched"
REFUSALS: Final = (
    *(RECIPE, POLICY, DATA, SECRET, KEYS, LOG, ANOTHER),
    *(SERVED, OUTSIDE, CHANGED, SET_UP, SPENT, MATCHED),
)
"""Codes with which a node refuses to join a run, or to answer an order, beside `CODES`."""
CLASSES: Final = tuple(
    sorted(name for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, Exception))
)
"""Names of Python's own exceptions. Those of other packages, which may be made from data, are told as their nearest."""
_KNOWN: Final = frozenset((*CODES, *REFUSALS, *(f"{INTERNAL}: {name}" for name in CLASSES)))


def is_code(text: str) -> bool:
    """Return whether a text is one of the list."""
    return text in _KNOWN


@contextmanager
def refused_as(code: str) -> Iterator[None]:
    """Have what is wrong in a block refused with a code: the words of the error stay at the site."""
    try:
        yield
    except RefusedError:
        raise
    except (FedgraftError, OSError) as error:
        raise RefusedError(str(error), code) from error
