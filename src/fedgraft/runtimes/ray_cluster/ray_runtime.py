"""Runtime on a Ray cluster: actors serve clients, this process keeps what those remember."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedgraft.contracts import ClientFailed
from fedgraft.contracts.data import Shards
from fedgraft.engine.client.client import Given, most_prepared
from fedgraft.engine.plan import Plan
from fedgraft.errors import InputError
from fedgraft.runtimes.ray_cluster import cluster
from fedgraft.runtimes.ray_cluster.object_bytes import shared
from fedgraft.runtimes.ray_cluster.ray_channel import RayChannels
from fedgraft.runtimes.workers.in_process import cores
from fedgraft.runtimes.workers.pool import Answered, Pool
from fedgraft.runtimes.workers.remembering import Remembering
from fedgraft.runtimes.workers.shared_memory import Blob


class RayRuntime(Remembering):
    """All clients in actors of a Ray cluster; what the cluster fails to do is `MachineError`, and no client's failure.

    Actors are -1 for one per CPU of the cluster, at most one a client; an address of "" starts a Ray here.
    """

    def __init__(self, plan: Plan, shards: Sequence[Any], actors: int, threads: int, address: str) -> None:
        super().__init__(len(shards))
        self._plan = plan
        self._pool: Pool | None = None
        self._cluster = cluster.Cluster(address, max(cores(), actors), "runtime.address =")
        try:
            cpus = cluster.cpus()
            count = min(cpus if actors < 0 else actors, len(shards))
            channels = RayChannels(plan, shards, threads, min(cpus, count), _gpus(plan, count))
            by_client: Given = shards if isinstance(shards, Shards) else dict(enumerate(shards))
            self._pool = Pool(channels, count, self._memory_of, self._set_up_of, most_prepared(by_client))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all actors, and the Ray that was started here; what clients remembered was partly in it."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        self._memories, self._set_ups = {}, {}
        self._cluster.close()

    def _shared(self, memory: bytes) -> Blob:
        return shared([memory])

    def _serve(
        self, requests: Mapping[int, bytes], models: Mapping[int, bytes], deadline_seconds: float | None
    ) -> dict[int, Answered | ClientFailed]:
        assert self._pool is not None, "closed"
        return self._pool.serve(requests, models, deadline_seconds)


def _gpus(plan: Plan, actors: int) -> float:
    """Return the share of a GPU that each actor asks for. Raises `InputError` where there is none."""
    if plan.device != "cuda":
        return 0.0
    gpus = cluster.gpus()
    if not gpus:
        raise InputError("runtime.device = 'cuda', but the Ray cluster has no GPU; use runtime.device=cpu.")
    return min(1.0, int(1000 * gpus / actors) / 1000)
