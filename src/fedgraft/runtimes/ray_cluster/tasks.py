"""Work in tasks of a Ray cluster, each in a process of its own; what a lost one was at is done again."""

import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import ray
import torch
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError

from fedgraft.errors import MachineError
from fedgraft.runtimes.ray_cluster.cluster import Cluster

Result = TypeVar("Result")
RETRIES = 3
"""How often what a lost process or node was at is done again."""


def results(
    works: Sequence[Callable[[], Result]], address: str, cpus: int, option: str
) -> Iterator[tuple[int, Result]]:
    """Yield (index, result) of each work as it ends, each in a process of its own with one CPU and one thread.

    Works and their results can be sent to a process. An address of "" starts a Ray here, with so many CPUs. Raises
    what a work has raised, and `MachineError` for one that is lost again and again.
    """
    cluster = Cluster(address, cpus, option)
    running: dict[Any, int] = {}
    try:
        do: Any = ray.remote(num_cpus=1, max_retries=RETRIES, max_calls=1, scheduling_strategy="SPREAD")(_do)
        paths = [*sys.path]
        running = {
            do.remote(paths, cloudpickle.dumps(work)): index  # type: ignore[no-untyped-call]
            for index, work in enumerate(works)
        }
        while running:
            for done in ray.wait(list(running))[0]:
                index = running.pop(done)
                yield index, _result(done)
    finally:
        for left in running:
            ray.cancel(left, force=True)
        cluster.close()


def _result(done: Any) -> Any:
    try:
        return ray.get(done)
    except RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise
    except RayError as error:
        reason = next((line for line in str(error).splitlines() if line), type(error).__name__)
        raise MachineError(
            f"What was done on the Ray cluster was lost {RETRIES + 1} times: {reason.rstrip('.')}. Cells that are done "
            "are kept; where memory ran out, let each node have fewer CPUs."
        ) from error


def _do(paths: Sequence[str], work: bytes) -> Any:
    """Do a work in a process of the cluster, which ends with it: what it has prepared may be gigabytes."""
    sys.path.extend(path for path in paths if path not in sys.path)
    torch.set_num_threads(1)
    return pickle.loads(work)()
