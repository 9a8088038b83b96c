"""Fields of what leaves a node beside messages of the wire: how each may be made, and what it tells."""

from typing import NamedTuple

WORD, KEYED, ECHO, GATED = "word", "keyed", "echo", "gated"
"""How a field may be made: of nothing but what the operators chose or a fixed list has; of data, under a key that the
server has not; of the server's own words; by the gate, or in a way that the policy of the site names."""


class Field(NamedTuple):
    """A field that may leave.

    Args:
        kind: type of its value.
        made: one of `WORD`, `KEYED`, `ECHO`, `GATED`.
        tells: what it tells, for people.
    """

    kind: type
    made: str
    tells: str
