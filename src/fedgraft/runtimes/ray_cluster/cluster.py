"""The connection to a Ray cluster, or a Ray on this machine for as long as it is open."""

import os
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import ray
from ray._private import worker as ray_worker

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
