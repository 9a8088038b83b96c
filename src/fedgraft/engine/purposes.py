"""For what messages are sent: purposes of the ledger, and of a site's policy. The protocol's table has each kind's."""

from typing import Final

HALO: Final = "halo"
MATCHING: Final = "matching"
EVALUATION: Final = "evaluation"
"""Purposes of rows of nodes, which travel with models, of ids that sites match, and of scores."""
PURPOSES_OF_CLIENTS: Final = ("statistics", "probe", "model", HALO, EVALUATION, "smoothing", "masking", MATCHING)
"""Purposes for which clients send anything."""
