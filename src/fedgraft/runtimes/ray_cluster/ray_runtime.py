"""Runtime on a Ray cluster: actors serve clients, this process keeps what those remember."""

import pickle
import sys
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import ray
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError

from fedgraft.contracts import ClientFailed
from fedgraft.contracts.data import Shards
from fedgraft.engine.client.client import Given, most_prepared
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.table import OUTSIDE
from fedgraft.errors import FedgraftError, InputError, MachineError, memory_shortage
from fedgraft.runtimes.ray_cluster import cluster
from fedgraft.runtimes.ray_cluster.actor import Actor, ObjectBytes, lasting, shared
from fedgraft.runtimes.workers.channel import Channel, Channels
from fedgraft.runtimes.workers.in_process import cores
from fedgraft.runtimes.workers.pool import Answered, Pool
from fedgraft.runtimes.workers.remembering import Remembering
from fedgraft.runtimes.workers.shared_memory import Blob

_PING_SECONDS: Final = 10.0
"""How long an actor that has nothing to do may take to say so."""
_RECENT: Final = 4
"""Messages for many clients that the object store keeps at a time."""
_SAID: Final = 200
"""Characters of Ray's reasons that are told."""


class RayChannel(Channel):
    """An actor."""

    def __init__(self, channels: "RayChannels", actor: Any, beginning: Any) -> None:
        self._channels, self._actor = channels, actor
        self.pending: list[Any] = [beginning]
        self.gone = ""
        self._unreadable = False
        self._checked = channels.lost

    def send(self, *values: Any) -> None:
        """Send a request; large values go through the object store."""
        if self.gone:
            raise OSError(self.gone)
        try:
            self.pending = self._actor.serve.remote(*map(_argument, values))
        except RayError as error:
            self._end(_reason(error))
            raise OSError(self.gone) from error

    def receive(self) -> tuple[Any, ...]:
        """Return what it answered."""
        if self.gone:
            raise EOFError(self.gone)
        pending, self.pending = self.pending, []
        try:
            first, *rest = ray.get(pending)
        except RayTaskError as error:  # the actor is there, but what it was at has failed
            lacked = memory_shortage(error.cause) if isinstance(error.cause, BaseException) else ""
            self._unreadable = not lacked
            self._end(lacked or f"its actor failed ({_reason(error)})")
        except RayError as error:
            self._end(_reason(error))
        else:
            if isinstance(first, str):
                self._end(first)
                return (first,)
            return first._replace(memory=rest[0]) if rest else (first,)
        raise EOFError(self.gone)

    def poll(self) -> bool:
        """Return whether it has answered or is gone; once an actor was lost, all others are asked."""
        if self.gone:
            return True
        if self.pending:
            return bool(ray.wait(self.pending[:1], timeout=0)[0])
        if self._checked != self._channels.lost:
            self._checked = self._channels.lost
            try:
                ray.get(self._actor.ping.remote(), timeout=_PING_SECONDS)
            except RayError as error:
                self._end(_reason(error))
        return bool(self.gone)

    def kill(self) -> None:
        """End it at once."""
        if self._actor is not None:
            with suppress(RayError):
                ray.kill(self._actor)
        self._actor, self.pending = None, []
        self.gone = self.gone or "its actor was ended"

    def close(self) -> None:
        """End it: it keeps nothing that is not here."""
        self.kill()

    def join(self, seconds: float) -> None:
        """Wait for nothing: the cluster ends it."""

    def ending(self, lacked: str) -> str:
        """Return how it ended."""
        return lacked or self.gone or "its actor was lost"

    @property
    def unreadable(self) -> bool:
        """True where it ended since something failed that is no lack of memory."""
        return self._unreadable

    def _end(self, why: str) -> None:
        self.gone = why
        self._channels.lost += 1
        self.kill()


class RayChannels(Channels):
    """Starts actors of a Ray cluster.

    Shards are in the object store, each for itself where they are there already; a sequence that makes them when they
    are asked for is sent whole.

    Args:
        plan: what both ends agreed on.
        shards: every client's own shard.
        threads: torch threads of each.
        cpus: how many of the first actors ask for a CPU of their own; those that take others' places ask for none,
            since the CPUs of a node that is lost are lost with it.
        gpus: share of a GPU that each asks for.

    Attributes:
        lost: how many actors were lost so far.
    """

    option = "runtime.actors"

    def __init__(self, plan: Plan, shards: Sequence[Any], threads: int, cpus: int, gpus: float) -> None:
        apart = isinstance(shards, list | tuple)
        stored = [_put(shard) for shard in shards] if apart else _put(shards)
        self._arguments = [*sys.path], _put(plan), stored, threads, pickle.dumps(OUTSIDE)
        self._cpus, self._gpus = cpus, gpus
        self._actors: Any = ray.remote(Actor)
        self._recent: deque[tuple[bytes, ObjectBytes]] = deque()
        self.lost = 0

    def open(self, again: bool) -> RayChannel:
        """Start an actor, on whichever node has most room."""
        asks = 0 if again or not self._cpus else 1
        self._cpus -= asks
        try:
            actor: Any = self._actors.options(num_cpus=asks, num_gpus=self._gpus, scheduling_strategy="SPREAD").remote()
            return RayChannel(self, actor, actor.begin.remote(*self._arguments))
        except RayError as error:
            raise self.not_started(_reason(error)) from error

    def wait(self, channels: Sequence[Channel], timeout_seconds: float | None) -> Collection[Channel]:
        """Return those that have answered or are gone."""
        actors = [channel for channel in channels if isinstance(channel, RayChannel)]
        if gone := [channel for channel in actors if channel.gone]:
            return gone
        waiting = {channel.pending[0]: channel for channel in actors if channel.pending}
        if ray.wait(list(waiting), timeout=timeout_seconds)[0]:
            ready = ray.wait(list(waiting), num_returns=len(waiting), timeout=0)[0]
            return [waiting[reference] for reference in ready]
        return []

    def shared(self, parts: list[bytes | memoryview]) -> Blob:
        """Return all parts, one behind the other; a message to many is put into the object store once."""
        if len(parts) != 1 or not isinstance(parts[0], bytes) or not parts[0]:
            return shared(parts)
        message = parts[0]
        for known, blob in self._recent:
            if known is message:
                return blob
        made = shared([message])
        if isinstance(made, ObjectBytes):
            made.reference = ray.put(made)
            self._recent.append((message, made))
            if len(self._recent) > _RECENT:
                self._recent.popleft()[1].reference = None
        return made

    def lasting(self, blob: object) -> bool:
        """Return whether an actor keeps the bytes."""
        return lasting(blob)

    def not_started(self, why: str) -> FedgraftError:
        """Return the error for an actor that does not start."""
        return MachineError(
            f"A Ray actor could not start: {why}. Where the cluster has no free CPU, wait or use fewer "
            f"{self.option}; where memory ran out, use fewer as well, or nodes with more."
        )

    def unreadable(self, why: str) -> FedgraftError:
        """Return the error for actors that cannot read what they are sent."""
        return FedgraftError(
            f"A Ray actor could not start: {why}. Each node needs the same version of fedgraft, and the modules of a "
            "task of your own."
        )


def _put(value: Any) -> Any:
    """A reference to a pickled value in the object store, or to small ones with whoever has the reference."""
    return ray.put(ObjectBytes.of(cloudpickle.dumps(value)))  # type: ignore[no-untyped-call]


def _argument(value: Any) -> Any:
    return (value.reference or ray.put(value)) if isinstance(value, ObjectBytes) else value


def _reason(error: RayError) -> str:
    """Return what an error of Ray's says, in one line."""
    if isinstance(error, RayTaskError):
        cause = error.cause
        return f"{type(cause).__name__}: {' '.join(str(cause).split())[:_SAID]}"
    lines = [line for line in str(error).splitlines() if line and not line.startswith(("\t", " "))]
    text = " ".join((lines[-1] if lines else type(error).__name__).split())
    text = text.partition(" Worker exit type:")[0].rstrip(".")[:_SAID]
    return f"its actor was lost ({text})"


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
