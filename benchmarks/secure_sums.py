"""What a masked sum costs: bytes and processor milliseconds of a client, and of the server where a tenth is gone.

python benchmarks/secure_sums.py    # a table; some seconds
"""

import time

import numpy as np

from fedgraft.engine.privacy.secure_sum import CODES
from fedgraft.engine.protocol.masking_kinds import MaskLayouts
from fedgraft.secrets.masked_sum import Collector, Member, lane_type
from fedgraft.secrets.neighbours import degree, graph, threshold
from fedgraft.secrets.signing import Signatures
from fedgraft.wire import message_bytes, packing
from fedgraft.wire.layouts import Layout, Spec

SIZES = ((10, 12_099), (100, 12_099), (100, 12_099, True), (1_000, 12_099), (100, 1_000_000))
"""Clients of a cohort, numbers of a model, and whether keys are signed."""
BITS, BUCKET, SHARE, GONE = 4, 256, 0.55, 10
COLUMNS = (
    "clients",
    "numbers",
    "neighbours",
    "signed",
    "bits",
    "kB up",
    "of these masks",
    "ms keys",
    "ms shares",
    "ms mask",
    "ms signed",
    "ms server",
)


def measured(clients: int, numbers: int, signed: bool = False) -> list[str]:
    """Return a row of the table."""
    k, codes = degree(clients, SHARE), numbers + -(-numbers // BUCKET)
    bits = ((2**BITS - 1) * clients).bit_length()
    members = {client: Member(client, 1, 0, client.to_bytes(32)) for client in range(clients)}
    keys, key_ms = _timed(lambda: {client: each.public for client, each in members.items()})
    peers = graph(list(members), k, seed=0)
    known = {client: {peer: keys[peer] for peer in peers[client]} for client in members}
    t = threshold(k, SHARE)
    boxes, share_ms = _timed(lambda: {client: each.boxes(known[client], t) for client, each in members.items()})
    collector = Collector(1, 0, bits, t, keys, peers, np.zeros(codes, lane_type(bits)))
    values, mask_ms = np.ones(codes, np.uint32), 0.0
    for client in list(members)[clients // GONE :]:
        masked, spent = _timed(lambda client=client: members[client].masked(values, bits, known[client]))
        mask_ms += spent
        collector.add(client, masked)
    revealed = {
        client: members[client].revealed(
            known[client], {peer: boxes[peer][client] for peer in peers[client]}, collector.alive
        )
        for client in collector.alive
    }
    sign_ms = _signed(members, known, keys) if signed else 0.0
    total, server_ms = _timed(lambda: collector.unmasked(revealed))
    assert (total == len(collector.alive)).all(), "the sum of ones"
    masks = sum(message_bytes(layout, (), layout) for layout in MaskLayouts(signed, k).replies)
    update = message_bytes(Layout((Spec(CODES, "uint8", (packing.packed_bytes(codes, bits),)),)))
    times = (key_ms / clients, share_ms / clients, mask_ms / len(collector.alive), sign_ms / clients, server_ms)
    counts = (f"{clients}", f"{numbers:,}", f"{k}", "yes" if signed else "no", f"{bits}")
    sizes = (f"{(update + masks) / 1000:,.1f}", f"{masks / 1000:.1f}")
    return [*counts, *sizes, *(f"{each:.1f}" for each in times)]


def _signed(members, known, keys):
    """Milliseconds of all clients that sign keys, check those of neighbours, and confirm to each other who is there."""
    signatures = Signatures.simulated(bytes(32))
    made, spent = _timed(lambda: {client: signatures.signed(client, 1, 0, keys[client]) for client in members})

    def confirmed():
        for client, each in members.items():
            for peer, public in known[client].items():
                signatures.check(peer, 1, 0, public, made[peer])
                assert each.is_confirmed(peer, public, b"", members[peer].confirmation(client, keys[client]))

    return spent + _timed(confirmed)[1]


def _timed(work):
    """Return what comes of it, and milliseconds of the processor."""
    began = time.process_time()
    made = work()
    return made, 1000 * (time.process_time() - began)


if __name__ == "__main__":
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for size in SIZES:
        print("| " + " | ".join(measured(*size)) + " |", flush=True)
