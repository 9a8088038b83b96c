"""Flower: clients at virtual nodes of Flower's simulation, on this machine."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgraft.contracts import Runtime, RuntimeOptions
from fedgraft.errors import missing_extra, require


@dataclass(frozen=True)
class Flower(RuntimeOptions):
    """Virtual nodes of Flower's simulation, a rehearsal of sites: the same messages, the same bits.

    A node keeps what its client remembers; the server knows fingerprints of it.

    Args:
        actors: processes of the simulation, >= 1; -1 (default) is one per core.
        memories: folder where nodes keep what they remember, so that a run can be resumed; "" (default) is a temporary
            one.
        threads: torch threads of each process, >= 1.
        device: "cpu" or "cuda".
        deadline_seconds: how long to wait for a client; 0 = for ever.
        portable: as with `processes`.
    """

    actors: int = -1
    memories: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.actors >= 1 or self.actors == -1, "runtime.actors", ">= 1, or -1 for one per core", self.actors)

    def fingerprints(self, memories: Mapping[int, bytes]) -> dict[int, bytes]:
        """Return the fingerprints of what nodes keep."""
        return {client: memory for client, memory in memories.items() if client >= 0}

    def start(self, plan: Any, shards: Sequence[Any]) -> Runtime:
        """Start a simulation with a virtual node for each client."""
        with missing_extra("flower", "ray", by="runtime.name = 'flower'"):
            from fedgraft.runtimes.federation.nodes_runtime import NodesRuntime
            from fedgraft.runtimes.flower_apps.simulation import Simulation
        actors = min(os.cpu_count() or 1 if self.actors < 0 else self.actors, len(shards))
        folder = Path(self.memories).resolve() if self.memories else None
        link = Simulation(plan, shards, actors, self.threads, folder)
        run = hashlib.blake2b(f"simulation {plan.seed}".encode(), digest_size=16).hexdigest()
        runtime = NodesRuntime(link, run, len(shards), b"")
        try:
            runtime.wait_for_all()
        except BaseException:
            runtime.close()
            raise
        return runtime
