"""The protocol's table: a row for each kind of message. A new kind is a row here, who asks, and who answers."""

from types import MappingProxyType
from typing import Final

from fedgraft import wire
from fedgraft.engine.protocol import (
    masking_kinds,
    scoring_kinds,
    set_up_kinds,
    smoothing_kinds,
    training_kinds,
    transport_kinds,
)

_ROWS: Final = (
    *set_up_kinds.KINDS,
    *training_kinds.KINDS,
    *scoring_kinds.KINDS,
    *smoothing_kinds.KINDS,
    *masking_kinds.KINDS,
    *transport_kinds.KINDS,
)
TABLE: Final = MappingProxyType({row.name: row for row in _ROWS})
"""{kind: its row}."""

for _row in _ROWS:
    if _row.number is not None:
        wire.declare(_row.name, _row.number, _row.detail)
