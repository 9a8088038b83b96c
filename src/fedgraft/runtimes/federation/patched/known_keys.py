"""Refuses a node whose key is unknown in so many words, at both ends.

Flower says only that a node could not be activated, as it does of one that is connected already, which may try again.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Final

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.proto.fleet_pb2 import ActivateNodeRequest, ActivateNodeResponse
from flwr.server.superlink.linkstate import LinkState
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.primitives.asymmetric import bytes_to_public_key

from fedgraft.runtimes.federation.certificates import fingerprint
from fedgraft.runtimes.federation.child import UNKNOWN_KEY

MOST_KEYS: Final = 1000
"""How many unknown keys are told of, each once: whoever asks with more fills no disk."""

Activate = Callable[[ActivateNodeRequest, LinkState], ActivateNodeResponse]


def telling(activate: Activate) -> Activate:
    """Return Flower's function that lets a node in, which here tells node and log of a key that is unknown."""
    told: set[bytes] = set()

    @wraps(activate)
    def call(request: ActivateNodeRequest, state: LinkState) -> ActivateNodeResponse:
        key = request.public_key
        if state.get_node_id_by_public_key(key) is not None:
            return activate(request, state)
        if key not in told and len(told) < MOST_KEYS:
            told.add(key)
            mark = fingerprint(bytes_to_public_key(key).public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
            print(f"{UNKNOWN_KEY} {mark}", file=sys.stderr, flush=True)
        failed = ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED
        raise FlowerError(failed, UNKNOWN_KEY, public_details=UNKNOWN_KEY)

    return call
