"""The connection to a Ray cluster, or a Ray on this machine for as long as it is open.

Work there is done in tasks, each in a process of its own; that of a lost task is done again.
"""

import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import ray
import torch
from ray import cloudpickle
from ray._private import worker as ray_worker
from ray.exceptions import RayError, RayTaskError

from fedgraft.errors import InputError, MachineError

INLINE: Final = 4 << 20
"""Bytes up to which an answer comes with the message that it is there: two calls of the node's own process less. A
cluster elsewhere has what it was started with."""
_LONGEST: Final = 24
"""Characters of a folder for temporary files in which Ray's sockets still have names that systems take."""


class Cluster:
    """A connection to a cluster; one that the calling process has opened itself is used, and left open.

    An address of "" starts a Ray here, with so many CPUs, which ends with the connection. `option` names the address in
    errors. Raises `InputError` where there is no cluster, and `MachineError` where no Ray can be started.
    """

    def __init__(self, address: str, cpus: int, option: str) -> None:
        self._folder = ""
        self._opened = not ray.is_initialized()
        if not self._opened:
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # what runs here is nobody else's business
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of what it will do one day
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error", "configure_logging": False}
        try:
            with _as_before(bool(address)):
                _keep_silent()
                if address:
                    ray.init(address, **({} if address.startswith("ray://") else quiet))
                else:
                    root = tempfile.gettempdir()
                    self._folder = tempfile.mkdtemp(prefix="ray-", dir=root if len(root) <= _LONGEST else "/tmp")
                    here: dict[str, Any] = {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": self._folder}
                    ray.init("local", **here, _system_config={"max_direct_call_object_size": INLINE}, **quiet)
        except Exception as error:  # Ray has no error of its own for this
            self.close()
            why = " ".join(str(error).split())[:300] or type(error).__name__
            if address:
                raise InputError(f"{option} {address!r} leads to no Ray cluster: {why}.") from error
            raise MachineError(f"Ray could not be started: {why}.") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the cluster, or end the Ray that was started here; safe to call twice."""
        if self._opened:
            self._opened = False
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ray.shutdown()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


def cpus() -> int:
    """Return how many CPUs the cluster has, at least 1."""
    return max(1, int(_resources().get("CPU", 1)))


def gpus() -> float:
    """Return how many GPUs the cluster has."""
    return _resources().get("GPU", 0.0)


def _keep_silent() -> None:
    """Have Ray not print what it hears of lost workers: standard output is for results, and runs tell it themselves.

    There is no option for this; where a version of Ray does it elsewhere, it prints.
    """
    if hasattr(ray_worker, "print_to_stdstream"):
        ray_worker.print_to_stdstream = lambda *_, **__: None


def _resources() -> dict[str, float]:
    return ray.cluster_resources()  # type: ignore[no-untyped-call,no-any-return]


@contextmanager
def _as_before(elsewhere: bool) -> Iterator[None]:
    """Start Ray without its warnings, and have signals be handled as they were.

    Ctrl-C, and the end of a terminal, reach all processes of the group: those of Ray leave them to this one, which may
    store its run first. What is blocked here is blocked in them.
    """
    blocked = set() if elsewhere else {signal.SIGINT, signal.SIGHUP}
    handler = signal.getsignal(signal.SIGTERM)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
