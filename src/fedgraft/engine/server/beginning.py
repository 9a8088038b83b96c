"""Secrets of the server, and what it has before a run begins."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedgraft.contracts.abilities.summing import Words
from fedgraft.contracts.values import Halo
from fedgraft.wire.layouts import Array

if TYPE_CHECKING:
    from fedgraft.engine.privacy.central import CentralMechanism


@dataclass(frozen=True)
class ServerSecret:
    """The root of a server's draws in a run.

    Args:
        seed: of the run.
        root: 32 bytes that the run's folder keeps; b"" in a simulation, where they follow from the seed: whoever runs
            one has all clients' data.
    """

    seed: int
    root: bytes = b""

    def words(self, purpose: str, round: int, client: int = 0, content: Iterable[Array] = ()) -> Words:
        """Return what is drawn from for one purpose of a round.

        It is a function of what it hides, too (`content`): the same noise on two sums would show what lies between
        them, and a round that is made again may have another sum.
        """
        from fedgraft.secrets.agreement import derived  # cryptography takes its time to import
        from fedgraft.secrets.keystream import Keystream

        root = self.root or hashlib.sha256(f"secret of a simulation's server, seed {self.seed}".encode()).digest()
        digest = hashlib.sha256()
        for array in content:
            digest.update(array.tobytes())
        return Keystream(derived(root, "server", purpose, round, client, digest.hexdigest()))


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
