"""Train one graph neural network over graphs that may not leave their owners, and count every byte.

>>> import fedgraft
>>> run = fedgraft.run("fedacs", rounds=20, budget={"bytes": "5MB"})  # doctest: +SKIP
>>> run.summary["test_at_best_validation"]  # doctest: +SKIP

Names are imported when they are first used, so that a worker process loads neither pandas' nor Plotly's share.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedgraft.errors import AllClientsFailedError, BudgetError, FedgraftError, InputError, Interrupted, MachineError
    from fedgraft.experiment.job import Experiment, Job
    from fedgraft.experiment.storage.outside_classes import trust
    from fedgraft.interface.api import open, resume, run
    from fedgraft.interface.finished import Run
    from fedgraft.interface.seed_runs import Runs, compare

    __version__: str

__all__ = [
    "AllClientsFailedError",
    "BudgetError",
    "Experiment",
    "FedgraftError",
    "InputError",
    "Interrupted",
    "Job",
    "MachineError",
    "Run",
    "Runs",
    "__version__",
    "compare",
    "open",
    "resume",
    "run",
    "trust",
]

_HOMES = {
    **dict.fromkeys(("open", "resume", "run"), "interface.api"),
    "compare": "interface.seed_runs",
    "Run": "interface.finished",
    "Runs": "interface.seed_runs",
    **dict.fromkeys(("AllClientsFailedError", "BudgetError", "FedgraftError", "InputError"), "errors"),
    **dict.fromkeys(("Interrupted", "MachineError"), "errors"),
    **dict.fromkeys(("Experiment", "Job"), "experiment.job"),
    "trust": "experiment.storage.outside_classes",
}
"""Where each name lives."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = import_module("importlib.metadata").version("fedgraft")
    elif name in _HOMES:
        value = getattr(import_module(f"fedgraft.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'fedgraft' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
