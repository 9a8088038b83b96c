"""A node that changes its answers to orders to train: `python -m helpers.lying_node HOW,HOW,... node DIR --data FILE`.

There is a HOW for each such order; "" is the truth, as is what comes after the last.
"""

import sys
from dataclasses import replace

import numpy as np

from fedgraft import wire
from fedgraft.__main__ import main
from fedgraft.runtimes.federation.envelope import REFUSED, Answer, Order, opened, packed
from fedgraft.runtimes.federation.node import Node


def without_numbers(answer):
    """The same reply with NaN for each number; they are 32 bits."""
    start = wire.header_bytes(answer.reply)
    numbers = np.full((len(answer.reply) - start) // 4, np.nan, np.float32).tobytes()
    return replace(answer, reply=answer.reply[:start] + numbers + answer.reply[start + len(numbers) :])


LIES = {
    "": lambda answer, before: packed(answer),
    "garbage": lambda answer, before: b"\x00garbage",
    "oversized": lambda answer, before: packed(replace(answer, reply=answer.reply + bytes(1 << 22))),
    "replayed": lambda answer, before: before,
    "stranger": lambda answer, before: packed(replace(answer, client=answer.client + 1)),
    "nan": lambda answer, before: packed(without_numbers(answer)),
    "refused": lambda answer, before: packed(replace(answer, status=REFUSED, reply=b"no")),
}


def lie(lies):
    """Have every node of this process lie."""
    honest, left, last = Node.answer, list(lies), [b""]

    def answer(node, data):
        true, order = honest(node, data), opened(Order, data)
        if order.kind != "serve" or wire.kind_of(order.request) != "train":
            return true
        before, last[0] = last[0], true
        return LIES[left.pop(0) if left else ""](opened(Answer, true), before)

    Node.answer = answer


if __name__ == "__main__":
    lie(sys.argv[1].split(","))
    sys.argv[1:] = sys.argv[2:]
    main()
