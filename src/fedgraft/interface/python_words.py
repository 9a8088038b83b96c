"""Errors as Python's arguments have it, `data_root`, where the command line's options are named, `--data-root`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from fedgraft.errors import InputError

_COMMAND = re.compile(r"('fedgraft [^']*'|fedgraft [a-z]+ [A-Z]+ --[a-z-]+ [A-Z]+)")
"""What is a whole command and stays one."""
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z_-]*)")


def in_python(text: str) -> str:
    """Return a text with `--some-name` as `some_name`, but for what is a whole command.

    >>> in_python("--pairs has no rows; try 'fedgraft run RECIPE --from RUN'.")
    "pairs has no rows; try 'fedgraft run RECIPE --from RUN'."
    """
    parts = _COMMAND.split(text)
    parts[::2] = [_OPTION.sub(lambda match: match[1].replace("-", "_"), part) for part in parts[::2]]
    return "".join(parts)


@contextmanager
def python_words() -> Iterator[None]:
    """Raise an `InputError` from in here in Python's words."""
    try:
        yield
    except InputError as error:
        raise InputError(in_python(str(error))) from error
