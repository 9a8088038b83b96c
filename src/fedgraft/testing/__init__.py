"""The laws of every family of methods, for those who write one: a checker each, which an author's own tests call.

    from fedgraft.testing import check_selector
    check_selector(RoundRobin, clients=2)

A checker holds a class with some options to all laws of its family. It raises `AssertionError` with the names of the
class and the law, and what was seen. `fedgraft.testing.selectors.laws` and its like return the laws one by one, so that
a test can report each by its name. Some laws need hypothesis: pip install 'fedgraft[testing]'.

Names are imported when they are first used, so that a worker process that runs toy tasks loads nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedgraft.testing.aggregation import check_aggregation as check_aggregation
    from fedgraft.testing.answers import check_answers as check_answers
    from fedgraft.testing.baselines import Bench as Bench
    from fedgraft.testing.baselines import check_baseline as check_baseline
    from fedgraft.testing.codecs import check_codec as check_codec
    from fedgraft.testing.data import check_data as check_data
    from fedgraft.testing.encoders import check_encoder as check_encoder
    from fedgraft.testing.exchanges import check_exchange as check_exchange
    from fedgraft.testing.inputs import check_inputs as check_inputs
    from fedgraft.testing.runtimes import check_runtime as check_runtime
    from fedgraft.testing.samplers import check_sampler as check_sampler
    from fedgraft.testing.selectors import check_selector as check_selector
    from fedgraft.testing.server_optimizers import check_server_optimizer as check_server_optimizer
    from fedgraft.testing.sharing import check_sharing as check_sharing
    from fedgraft.testing.tasks import check_task as check_task

_HOMES = {
    "Bench": "baselines",
    "check_aggregation": "aggregation",
    "check_answers": "answers",
    "check_codec": "codecs",
    "check_data": "data",
    "check_encoder": "encoders",
    "check_exchange": "exchanges",
    "check_inputs": "inputs",
    "check_runtime": "runtimes",
    "check_sampler": "samplers",
    "check_selector": "selectors",
    "check_server_optimizer": "server_optimizers",
    "check_sharing": "sharing",
    "check_task": "tasks",
    "check_baseline": "baselines",
}
"""Where each name lives."""
_EARLIER = {"check_yardstick": "check_baseline"}
"""{earlier name: its name now}."""
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    name = _EARLIER.get(name, name)
    if name not in _HOMES:
        raise AttributeError(f"module 'fedgraft.testing' has no attribute {name!r}")
    value = getattr(import_module(f"fedgraft.testing.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
