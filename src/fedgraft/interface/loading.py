"""Import what takes seconds, or more memory than there may be; what goes wrong meanwhile is one line."""

from importlib import import_module
from signal import SIGINT
from typing import Any

from fedgraft.errors import MachineError, memory_shortage
from fedgraft.runtimes.workers import signals


def load(module: str) -> Any:
    """Return a module by its name. Raises `MachineError` where it cannot be imported."""
    try:
        return import_module(module)
    except KeyboardInterrupt as error:  # which typer would take for its own
        raise signals.Terminated(SIGINT) from error
    except (ImportError, OSError, MemoryError, SystemError) as error:  # the last of a library that lacks memory
        why = memory_shortage(error) or " ".join(str(error).split())
        raise MachineError(f"fedgraft cannot be loaded: {why}.") from error
