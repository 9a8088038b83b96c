"""What a client draws from its own secret: nobody else can, and whoever has the secret draws the same again."""

import hashlib

from fedgraft.contracts.summing import Words
from fedgraft.engine.plan import Plan
from fedgraft.wire import Message


def root_of(plan: Plan, root: bytes) -> bytes:
    """Return the root of a client's secrets of a run, 32 bytes.

    In simulations, where `root` is b"", it follows from the seed: whoever runs one has all clients' data.
    """
    return root or hashlib.sha256(f"masks of a simulation, seed {plan.seed}".encode()).digest()


def noise_of(plan: Plan, root: bytes, client: int, message: Message) -> Words | None:
    """Return what a client's noise of a round is drawn from; None where there is none.

    It is a function of the model that the client was sent, too: equal noise on two models would show what lies between
    them. So an order that comes again has the same answer, and another one of the same round has other noise.
    """
    if not plan.privacy.active:
        return None
    from fedgraft.secrets.agreement import derived  # cryptography takes its time to import
    from fedgraft.secrets.keystream import Keystream

    told, content = message.arrays or {}, hashlib.sha256()
    for spec in plan.coded_download_layout:
        content.update(told[spec.name].tobytes())
    return Keystream(derived(root_of(plan, root), f"noise {content.hexdigest()}", message.round, 0, client))
