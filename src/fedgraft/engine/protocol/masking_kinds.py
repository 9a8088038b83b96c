"""Kinds of messages around a masked sum; `privacy.secure_sum` has the names of their arrays."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import (
    ALIVE,
    BOXES,
    CONFIRMED,
    COUNT,
    KEYS,
    PEERS,
    PRESENT,
    SHARES,
    SIGNATURES,
    Assurance,
)
from fedgraft.engine.protocol.message_kind import MessageKind, Reply, Request, Rounds
from fedgraft.secrets.sizes import BOX_BYTES, CONFIRM_BYTES, PUBLIC_BYTES, SHARE_BYTES, SIGNATURE_BYTES
from fedgraft.wire.layouts import VARIABLE, Layout, Spec


@dataclass(frozen=True)
class MaskLayouts:
    """Layouts of messages around masked sums, for a number of neighbours.

    Args:
        signed: whether keys are signed.
        peers: neighbours of a client.
    """

    signed: bool
    peers: int = VARIABLE

    @classmethod
    def of(cls, plan: Plan) -> "MaskLayouts":
        """Return those of a plan, for any number of neighbours."""
        return cls(plan.collection.assurance == Assurance.SIGNED)

    @property
    def _marks(self) -> tuple[int, ...]:
        return (VARIABLE if self.peers == VARIABLE else -(-self.peers // 8),)

    @property
    def encrypted(self) -> Layout:
        """Layout of what neighbours have sealed for a client, in the order for its part of a sum."""
        boxes = Spec(BOXES, "uint8", (self.peers, BOX_BYTES))
        return Layout((Spec(PRESENT, "uint8", self._marks), boxes))

    def request(self, kind: str) -> Layout:
        """Return the layout of a request."""
        keys = (Spec(PEERS, "uint32", (self.peers,)), Spec(KEYS, "uint8", (self.peers, PUBLIC_BYTES)))
        signatures = Spec(SIGNATURES, "uint8", (self.peers, SIGNATURE_BYTES))
        alive, confirmed = Spec(ALIVE, "uint8", self._marks), Spec(CONFIRMED, "uint8", (self.peers, CONFIRM_BYTES))
        specs = {
            "keys": (),
            "shares": (*keys, *((signatures,) if self.signed else ())),
            "confirm": (alive,),
            "unmask": (alive, *((confirmed,) if self.signed else ())),
        }
        return Layout(specs[kind])

    @property
    def replies(self) -> list[Layout]:
        """Layouts of all replies."""
        return [self.reply(kind) for kind in ("keys", "shares", *(["confirm"] if self.signed else []), "unmask")]

    def reply(self, kind: str) -> Layout:
        """Return the layout of a reply."""
        signature = (Spec(SIGNATURES, "uint8", (SIGNATURE_BYTES,)),) if self.signed else ()
        specs = {
            "keys": (Spec(KEYS, "uint8", (PUBLIC_BYTES,)), *signature),
            "shares": (Spec(BOXES, "uint8", (self.peers, BOX_BYTES)),),
            "confirm": (Spec(CONFIRMED, "uint8", (self.peers, CONFIRM_BYTES)),),
            "unmask": (Spec(SHARES, "uint8", (self.peers, SHARE_BYTES)),),
        }
        return Layout(specs[kind])


def _kind(name: str, number: int, says: str, signed: bool = False, counts: bool = True) -> MessageKind:
    return MessageKind(
        name,
        number,
        "masking",
        says,
        asked=lambda plan: plan.collection.assurance >= (Assurance.SIGNED if signed else Assurance.MASKED),
        rounds=Rounds.ANY,
        detail="segment",
        request=Request(names=lambda plan: (COUNT,) if counts else (), layout=partial(_request, name)),
        reply=Reply(layout=partial(_reply, name)),
    )


def _request(kind: str, plan: Plan) -> Layout:
    return MaskLayouts.of(plan).request(kind)


def _reply(kind: str, plan: Plan) -> Layout:
    return MaskLayouts.of(plan).reply(kind)


AGREE: Final = _kind("keys", 21, "its public keys of one sum", counts=False)
SHARE: Final = _kind("shares", 22, "shares of its two secrets of the sum, sealed for its neighbours")
CONFIRM: Final = _kind("confirm", 25, "to each neighbour, that it counts that one among the living", signed=True)
UNMASK: Final = _kind("unmask", 23, "of each neighbour a share of one secret: of its own mask, or of its key")
KINDS: Final = (AGREE, SHARE, CONFIRM, UNMASK)
