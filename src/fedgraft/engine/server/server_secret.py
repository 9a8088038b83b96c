"""What the server draws from its own secret: clients cannot guess it, and a run that is taken up draws it again."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from fedgraft.contracts.abilities.summing import Words
from fedgraft.wire.layouts import Array


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
