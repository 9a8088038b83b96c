"""For what messages of each kind are sent: the purposes of the ledger, and of a site's policy."""

from types import MappingProxyType
from typing import Final

SMOOTHING_KINDS: Final = ("border", "smooth", "hop", "sums", "tally", "choice", "smoothed")
"""Kinds of messages by which answers are smoothed."""
MASKING_KINDS: Final = ("keys", "shares", "confirm", "unmask")
"""Kinds of messages by which updates are masked, and their sum is unmasked, in their order."""
ADDED: Final = ("train", "publish")
"""Kinds of messages that can be added up: updates, and statistics that a task sums."""
OUTSIDE: Final = ("measure", "relay")
"""Kinds of the experimenter's requests, outside the protocol: remembered halo states play no part, the work is not
counted."""
PURPOSE_OF_KIND: Final = MappingProxyType(
    {
        "hello": "statistics",
        "statistics": "statistics",
        "stage": "statistics",
        "publish": "statistics",
        "probe": "probe",
        "trial": "probe",
        "train": "model",
        "alone": "model",
        "rows": "halo",
        "wait": "halo",
        "evaluate": "evaluation",
        **dict.fromkeys(SMOOTHING_KINDS, "smoothing"),
        **dict.fromkeys(MASKING_KINDS, "masking"),
    }
)
"""{kind of message: purpose that the ledger charges it to}."""
PURPOSES: Final = MappingProxyType({**PURPOSE_OF_KIND, **dict.fromkeys(OUTSIDE, "evaluation")})
"""The same, and of what no ledger counts."""
HALO: Final = "halo"
MATCHING: Final = "matching"
EVALUATION: Final = "evaluation"
"""Purposes of rows of nodes, which travel with models, of ids that sites match, and of scores."""
PURPOSES_OF_CLIENTS: Final = (*dict.fromkeys(PURPOSE_OF_KIND.values()), MATCHING)
"""Purposes for which clients send anything."""
