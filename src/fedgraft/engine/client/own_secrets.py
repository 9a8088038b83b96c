"""What a client draws from its own secret: nobody else can, and whoever has the secret draws the same again."""

import hashlib
from collections.abc import Iterable

from fedgraft.contracts.abilities.summing import Words
from fedgraft.engine.plan import Plan
from fedgraft.wire.layouts import Array


def root_of(plan: Plan, root: bytes) -> bytes:
    """Return the root of a client's secrets of a run, 32 bytes.

    In simulations, where `root` is b"", it follows from the seed: whoever runs one has all clients' data.
    """
    return root or hashlib.sha256(f"masks of a simulation, seed {plan.seed}".encode()).digest()


def noise_of(
    plan: Plan, root: bytes, client: int, round: int, content: Iterable[Array], purpose: str = "noise"
) -> Words:
    """Return the source of a client's noise of a round, from 1, or of statistics, 0.

    It is a function of what it hides, too (`content`): the model that the client was sent, and the numbers that noise
    is added to. Equal noise on two models, or on two data sets, would show what lies between them. So an order that
    comes again has the same answer, and anything else has other noise.

    Source: Rogaway, Shrimpton, "A Provable-Security Treatment of the Key-Wrap Problem" (SIV), EUROCRYPT 2006.
    """
    from fedgraft.secrets.agreement import derived  # cryptography takes its time to import
    from fedgraft.secrets.keystream import Keystream

    digest = hashlib.sha256()
    for array in content:
        digest.update(array.tobytes())
    return Keystream(derived(root_of(plan, root), f"{purpose} {digest.hexdigest()}", round, 0, client))
