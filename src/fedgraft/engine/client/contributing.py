"""The choice of a client's part in how updates are collected, once for each plan."""

from typing import TYPE_CHECKING

from fedgraft.engine.client.addend import Addend
from fedgraft.engine.client.contribution import Contribution
from fedgraft.engine.client.noisy_addend import NoisyAddend
from fedgraft.engine.client.own_secrets import RegisteredKeys, root_of
from fedgraft.engine.client.own_update import OwnUpdate
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import Assurance

if TYPE_CHECKING:
    from fedgraft.engine.client.masking import Masking


def contribution_of(plan: Plan, root: bytes = b"", keys: RegisteredKeys | None = None) -> Contribution:
    """Return a client's part.

    `root` is the root of its secrets, see `root_of`. `keys` are a node's; None = those of a simulation.
    """
    if plan.collection.single:
        return OwnUpdate(plan)
    masking = masking_of(plan, root, keys)
    return NoisyAddend(plan, masking, root) if plan.collection.noisy else Addend(plan, masking)


def masking_of(plan: Plan, root: bytes, keys: RegisteredKeys | None) -> "Masking | None":
    """Return the client's part in masked sums, if there are any: its cryptography takes its time to import."""
    assurance = plan.collection.assurance
    if assurance == Assurance.NONE:
        return None
    from fedgraft.engine.client.masking import Masking

    if assurance == Assurance.MASKED:
        return Masking(plan, root_of(plan, root))
    from fedgraft.secrets.signing import Signatures

    own = root_of(plan, root)
    known = Signatures.registered(keys.run, keys.private, keys.public) if keys else Signatures.simulated(own)
    return Masking(plan, own, known)
