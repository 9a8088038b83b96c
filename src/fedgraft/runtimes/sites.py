"""Sites: clients at the nodes of a federation, on machines of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge

from fedgraft.contracts import Runtime, RuntimeOptions
from fedgraft.errors import InputError


@dataclass(frozen=True)
class Sites(RuntimeOptions):
    """Nodes of a federation, for `fedgraft run RECIPE --on DIR`, which takes this runtime by itself.

    A node keeps what its client remembers; the server knows names of it, under a key of the site.

    Args:
        join_seconds: how long to wait at the start until all nodes have joined, >= 0; 0 (default) = for ever. A client
            whose node is not there then does not take part.
        threads: torch threads of the server and of each node, >= 1.
        device: "cpu" or "cuda".
        deadline_seconds: how long to wait for a client; 0 = for ever, also for a node that is away.
        portable: as with `processes`; the federation's own recipe must say so, for its nodes to start so.
    """

    join_seconds: Annotated[float, Ge(0), "0 = for ever"] = 0.0

    def fingerprints(self, memories: Mapping[int, bytes]) -> dict[int, bytes]:
        """Return the names of what nodes keep."""
        return {client: memory for client, memory in memories.items() if client >= 0}

    def start(self, plan: Any, shards: Sequence[Any]) -> Runtime:
        """Raise `InputError`: the nodes of a federation have the data."""
        raise InputError(
            "runtime.name = 'sites' is for 'fedgraft run RECIPE --on DIR', at the nodes of a federation; a rehearsal "
            "on this machine is runtime.name='processes'."
        )
