"""Log to standard error."""

import logging

from fedgraft.errors import printable, require_one_of

LEVELS = ("debug", "info", "warning", "error")


def show_from(level: str) -> None:
    """Show what is logged from a level on; at "debug" with tracebacks of clients that failed in this process.

    Clients are in this process with `runtime.workers = 0`; others' tracebacks stay in theirs.
    """
    require_one_of("--log-level", level, LEVELS)
    handler = logging.StreamHandler()
    handler.setFormatter(_Printable("%(levelname)s %(name)s: %(message)s"))
    log = logging.getLogger("fedgraft")
    log.handlers = [handler]
    log.setLevel(level.upper())


class _Printable(logging.Formatter):
    """Writes lines that do nothing but being shown, whatever a client or a data file is called."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).splitlines()))
