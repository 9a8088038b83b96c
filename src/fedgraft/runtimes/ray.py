"""Ray: clients in actors of a Ray cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedgraft.contracts import Runtime, RuntimeOptions
from fedgraft.errors import missing_extra, require


@dataclass(frozen=True)
class Ray(RuntimeOptions):
    """Actors of a Ray cluster, or of a Ray that is started on this machine.

    Each serves whichever client is next; the result does not depend on how many there are, nor on where they are. What
    a lost actor or node was at is done again by another. A Ray that the calling process has initialised is used as it
    is.

    Args:
        address: of a cluster that runs, "auto", "HOST:PORT" or "ray://HOST:PORT"; "" (default) starts a Ray here for
            as long as the run takes.
        actors: how many, >= 1; at most one a client; -1 (default) is one per CPU of the cluster.
        threads: torch threads of each, >= 1.
        device: "cpu" or "cuda".
        deadline_seconds: how long to wait for a client; 0 = for ever.
    """

    address: str = ""
    actors: int = -1

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = ">= 1, or -1 for one per CPU of the cluster"
        require(self.actors >= 1 or self.actors == -1, "runtime.actors", allowed, self.actors)

    def start(self, plan: Any, shards: Sequence[Any]) -> Runtime:
        """Start the actors."""
        with missing_extra("ray", by="runtime.name = 'ray'"):
            from fedgraft.runtimes.ray_cluster.ray_runtime import RayRuntime
        return RayRuntime(plan, shards, self.actors, self.threads, self.address)
