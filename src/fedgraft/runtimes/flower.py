"""Flower: clients at nodes of a Flower federation, or at virtual nodes of Flower's simulation."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge

from fedgraft.contracts import Runtime, RuntimeOptions
from fedgraft.errors import missing_extra, require


@dataclass(frozen=True)
class Flower(RuntimeOptions):
    """Nodes of Flower.

    With `fedgraft run RECIPE --on DIR` these are the nodes of a federation, on machines of their own. Without it they
    are virtual nodes of Flower's simulation on this machine, for a rehearsal: the same messages, the same bits.

    A node keeps what its client remembers; the server knows fingerprints of it.

    Args:
        actors: processes of a simulation, >= 1; -1 (default) is one per core. Unused in a federation.
        memories: folder where the virtual nodes of a simulation keep what they remember, so that a run can be resumed;
            "" (default) is a temporary one. Unused in a federation.
        join_seconds: how long to wait at the start until all nodes have joined, >= 0; 0 (default) = for ever. A client
            whose node is not there then does not take part.
        threads: torch threads of each process, >= 1.
        device: "cpu" or "cuda".
        deadline_seconds: how long to wait for a client; 0 = for ever, also for a node that is away.
        portable: as with `processes`; in a federation its own recipe must say so, for its server and nodes to start so.
    """

    actors: int = -1
    memories: str = ""
    join_seconds: Annotated[float, Ge(0), "0 = for ever"] = 0.0

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
            from fedgraft.runtimes.flower_simulation.simulation import Simulation
        actors = min(os.cpu_count() or 1 if self.actors < 0 else self.actors, len(shards))
        folder = Path(self.memories).resolve() if self.memories else None
        link = Simulation(plan, shards, actors, self.threads, folder)
        run = hashlib.blake2b(f"simulation {plan.seed}".encode(), digest_size=16).hexdigest()
        runtime = NodesRuntime(link, run, len(shards), b"")
        try:
            runtime.wait_for_all(self.join_seconds)
        except BaseException:
            runtime.close()
            raise
        return runtime
