"""The head of a node's audit log: hash of its last line and how many there are, in a file beside it.

A line is on disk before the head says so, and the head before an answer leaves. So a kill leaves a head that is one
line behind at most, and that line is of an answer that has not left. A log that lacks the head's line was cut, or put
back from a copy.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from fedgraft.errors import InputError, MachineError

AGAIN: Final = """Move audit.jsonl and audit.head away together to begin another log: what was told before is not \
counted any more."""
"""What helps where a log cannot go on."""
_PRIVATE: Final = 0o600


class Head(NamedTuple):
    """Of a log.

    Args:
        lines: how many there are, >= 0.
        head: hash of the last one, 64 hexadecimal digits; zeros where there is none.
    """

    lines: int
    head: str


def head_file(log: Path) -> Path:
    """Return the file with the head of a log."""
    return log.with_suffix(".head")


def write_head(log: Path, head: Head) -> None:
    """Store a log's head, as a whole or not at all. Raises `MachineError` where the disk does not take it.

    Where power fails the head may be an earlier one: the log has its line, too.
    """
    path = head_file(log)
    beside = path.with_suffix(".new")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE), "w") as file:
            file.write(json.dumps(head._asdict()))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise MachineError(f"{path} cannot be written: {error.strerror or error}.") from error


def read_head(log: Path) -> Head:
    """Return the head that is kept of a log. Raises `InputError` where there is none, or it is damaged."""
    path = head_file(log)
    try:
        content = json.loads(path.read_text())
        lines, head = content["lines"], content["head"]
    except FileNotFoundError as error:
        raise InputError(
            f"{log} has no {path.name} beside it: somebody took that away. "
            f"Put it back, or move {log.name} away to begin another log: what was told before is not counted any more."
        ) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is damaged ({error}). {AGAIN}") from error
    if type(lines) is not int or not isinstance(head, str):
        raise InputError(f"{path} is damaged: it must hold lines and a hash. {AGAIN}")
    return Head(lines, head)
