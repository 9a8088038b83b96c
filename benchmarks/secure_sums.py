"""What a masked sum costs: bytes and processor milliseconds of a client, and of the server where a tenth is gone.

python benchmarks/secure_sums.py    # a table; some seconds
"""

import time

import numpy as np

from fedgraft.engine.secure_sum import CODES, reply_layouts
from fedgraft.secrets.masked_sum import Collector, Member
from fedgraft.secrets.masks import lane_type
from fedgraft.secrets.neighbours import degree, graph, threshold
from fedgraft.wire import message_bytes, packing
from fedgraft.wire.layouts import Layout, Spec

SIZES = ((10, 12_099), (100, 12_099), (1_000, 12_099), (100, 1_000_000))
"""Clients of a cohort, and numbers of a model."""
BITS, BUCKET, SHARE, GONE = 4, 256, 0.55, 10
COLUMNS = (
    "clients",
    "numbers",
    "neighbours",
    "bits",
    "kB up",
    "of these masks",
    "ms keys",
    "ms shares",
    "ms mask",
    "ms server",
)


def measured(clients: int, numbers: int) -> list[str]:
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
    total, server_ms = _timed(lambda: collector.unmasked(revealed))
    assert (total == len(collector.alive)).all(), "the sum of ones"
    masks = sum(message_bytes(layout, (), layout) for layout in reply_layouts(k).values())
    update = message_bytes(Layout((Spec(CODES, "uint8", (packing.packed_bytes(codes, bits),)),)))
    times = (key_ms / clients, share_ms / clients, mask_ms / len(collector.alive), server_ms)
    counts = (f"{clients}", f"{numbers:,}", f"{k}", f"{bits}", f"{(update + masks) / 1000:,.1f}", f"{masks / 1000:.1f}")
    return [*counts, *(f"{each:.1f}" for each in times)]


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
