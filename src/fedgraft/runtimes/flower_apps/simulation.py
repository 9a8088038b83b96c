"""Flower's simulation: virtual nodes on this machine, each with a folder as a real node has."""

import logging
import os
import pickle
import shutil
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Final

import torch
from flwr.app import Context
from flwr.serverapp import Grid
from flwr.simulation import run_simulation

from fedgraft.engine.plan import Plan
from fedgraft.errors import MachineError
from fedgraft.runtimes.federation.node import Node
from fedgraft.runtimes.flower_apps.apps import GridLink, client_app, server_app

PLAN, SHARD, MEMORIES = "plan.pickle", "shard.pickle", "memories"
"""Files and a folder of a simulation: the plan of all, the data of each client, what it remembers."""
START_SECONDS: Final = 120.0
ENDING_SECONDS: Final = 60.0


class Simulation(GridLink):
    """A simulation with one virtual node for each client; its ServerApp waits until the link is closed.

    So many processes run ClientApps, each with so many torch threads. Nodes keep what they remember in a folder; None
    is a temporary one.
    """

    def __init__(
        self, plan: Plan, shards: Sequence[Any], actors: int, threads: int, folder: Path | None = None
    ) -> None:
        self._temporary = folder is None
        self._root = folder or Path(tempfile.mkdtemp(prefix="fedgraft-nodes-"))
        _write(self._root / PLAN, plan)
        for client, shard in enumerate(shards):
            _write(self._root / str(client) / SHARD, shard)
        self._closed = threading.Event()
        grids: Queue[Grid] = Queue()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._run, args=(len(shards), actors, threads, grids), name="flower-simulation", daemon=True
        )
        self._thread.start()
        super().__init__(self._grid_from(grids))

    def nodes(self) -> Collection[int]:
        """Return the ids of the virtual nodes; `MachineError` where the simulation has failed since."""
        if self._failed:
            raise MachineError(f"Flower's simulation has failed: {_first_cause(self._failed[0])}.")
        return super().nodes()

    def close(self) -> None:
        """End the simulation and delete its temporary folder."""
        self._closed.set()
        self._thread.join(ENDING_SECONDS)
        if self._temporary:
            shutil.rmtree(self._root, ignore_errors=True)

    def _grid_from(self, grids: "Queue[Grid]") -> Grid:
        waited = 0.0
        while waited < START_SECONDS and self._thread.is_alive():
            try:
                return grids.get(timeout=0.5)
            except Empty:
                waited += 0.5
        self.close()
        why = _first_cause(self._failed[0]) if self._failed else f"it did not start within {START_SECONDS:g} s"
        raise MachineError(f"Flower's simulation could not be started: {why}.")

    def _run(self, nodes: int, actors: int, threads: int, grids: "Queue[Grid]") -> None:
        root, closed = self._root, self._closed

        def serve(grid: Grid, context: Context) -> None:
            grids.put(grid)
            closed.wait()

        def answer(config: Mapping[str, Any], joined: bytes, order: bytes) -> bytes:
            torch.set_num_threads(threads)
            return _node(str(root), int(config["partition-id"])).answer(order)

        for name in ("flwr", "ray"):
            logging.getLogger(name).setLevel(logging.ERROR)
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of what it will do one day
        # "local": a Ray of its own, also where a cluster runs on this machine, which Ray would connect to.
        ray = {"address": "local", "num_cpus": actors}
        resources: Any = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": ray}
        try:
            run_simulation(server_app(serve), client_app(answer), nodes, backend_config=resources)
        except BaseException as error:
            self._failed.append(error)


def _first_cause(error: BaseException) -> str:
    """Return the message below those that Flower puts around it, without a full stop."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).rstrip(".") or type(error).__name__


@cache
def _node(root: str, client: int) -> Node:
    """Return a virtual node; a process that runs ClientApps makes it once."""
    folder = Path(root)
    plan = _read(folder / PLAN)
    own = folder / str(client)
    return Node(client, _read(own / SHARD), own / MEMORIES, lambda recipe: plan)


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(value))


def _read(path: Path) -> Any:
    """Return what this very simulation has written."""
    return pickle.loads(path.read_bytes())
