"""The most bytes that messages can take: what a byte budget must allow for, and what a client may reply."""

from functools import cache

from fedgraft import wire
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import CODES
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.wire import packing
from fedgraft.wire.layouts import VARIABLE, Layout, Spec


class Limits:
    """Bounds of a plan's messages by kind, without halo rows; of an experiment with so many clients."""

    def __init__(self, plan: Plan, clients: int = 1) -> None:
        self._plan, self._clients = plan, clients
        self.request_bytes, self.reply_bytes = cache(self._request_bytes), cache(self._reply_bytes)

    def most_bytes(self, kind: str) -> int:
        """Return the most bytes that one client's request and reply of this kind can take."""
        return self.request_bytes(kind) + self.reply_bytes(kind)

    def _request_bytes(self, kind: str) -> int:
        """Return the most bytes of one request of this kind."""
        plan = self._plan
        if kind == "smoothed":
            return wire.message_bytes()  # what it says of masks is counted by itself
        if kind not in Protocol.of(plan).request_bounds:
            return wire.message_bytes(
                Protocol.of(plan).request_layouts.get(kind), Protocol.of(plan).request_names.get(kind, ())
            )
        scored = {"evaluate": plan.scored_layout, "smooth": plan.model_layout}
        layout = plan.downlink.encoded(scored[kind]) if kind in scored else plan.coded_download_layout
        scales = 4 * plan.sum_coding.scales if kind == "train" and plan.sum_coding else 0
        return scales + wire.message_bytes(
            layout, Protocol.of(plan).request_names.get(kind, ()), Protocol.of(plan).request_bounds[kind]
        )

    def least_training_bytes(self) -> tuple[int, int]:
        """Return the least bytes of an order to train that brings the model, and of the answer."""
        plan = self._plan
        down = wire.message_bytes(
            _emptied(plan.coded_download_layout), Protocol.of(plan).request_names.get("train", ())
        )
        return down, wire.message_bytes(_emptied(plan.coded_upload_layout), Protocol.of(plan).report("train"))

    def _reply_bytes(self, kind: str) -> int:
        """Return the most bytes of one reply of this kind; an error's text always fits."""
        plan = self._plan
        if kind == "train":
            message = wire.message_bytes(
                plan.coded_upload_layout, Protocol.of(plan).report(kind), self._upload_bounds()
            )
        else:
            protocol = Protocol.of(plan)
            layout = protocol.reply_layouts.get(kind)
            message = wire.message_bytes(layout, protocol.report(kind), protocol.reply_bounds.get(kind))
        return max(message, wire.message_bytes() + wire.TEXT_BYTES)

    def _upload_bounds(self) -> Layout:
        """The layout of an update as it travels, with the largest number in place of each `VARIABLE`."""
        plan, coding = self._plan, self._plan.sum_coding
        if not coding:
            return plan.upload_bounds
        most = packing.packed_bytes(coding.codes, plan.collection.most_bits(coding, self._clients))
        return Layout((Spec(CODES, "uint8", (most,)),))


def _emptied(layout: Layout) -> Layout:
    """The layout with 0 in place of each `VARIABLE`."""
    return Layout(
        tuple(
            Spec(spec.name, spec.dtype, tuple(0 if size == VARIABLE else size for size in spec.shape))
            for spec in layout
        )
    )
