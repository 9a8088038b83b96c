"""What was done before clients read their data: they agreed on how, and edges between them were joined."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedgraft.contracts.values import Halo
from fedgraft.engine.server.server_secret import ServerSecret

if TYPE_CHECKING:
    from fedgraft.engine.privacy.central import CentralMechanism


@dataclass(frozen=True)
class Beginning:
    """What a run begins with.

    Args:
        charges: what it took, (purpose, client, (bytes down, bytes up)).
        joined: {client: the nodes of others that its edges were joined to}; None where nobody knows, as where one place
            has cut the graph.
        root: 32 bytes that the server alone knows; b"" in a simulation, see `ServerSecret`.
        noise: that the server adds to the sum of updates of a round; None = none.
    """

    charges: Sequence[tuple[str, int, tuple[int, int]]] = ()
    joined: Mapping[int, Halo] | None = None
    root: bytes = b""
    noise: "CentralMechanism | None" = None

    def secret(self, seed: int) -> ServerSecret:
        """Return what the server draws from in secret, in a run of this seed."""
        return ServerSecret(seed, self.root)

    def misfit(self, client: int, named: Halo) -> str:
        """Return what is wrong with nodes of others that a client names; "" for nothing."""
        if self.joined is None or not len(named.owner):
            return ""
        joined = self.joined.get(client)
        known = _addresses(joined) if joined else np.zeros(0, np.int64)
        if not len(strange := np.flatnonzero(~np.isin(_addresses(named), known))):
            return ""
        owner, place = named.owner[strange[0]], named.place[strange[0]]
        return f"names node {place} of client {owner}, which none of its edges was joined to"


def _addresses(nodes: Halo) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return nodes.owner.astype(np.int64) << 32 | nodes.place.astype(np.int64)
