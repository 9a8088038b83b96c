"""The protocol's table: a row for each kind of message. A new kind is a row here, who asks, and who answers.

A kind from outside is declared where it is defined, with how clients answer it: see `declare`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from fedgraft import wire
from fedgraft.contracts.capabilities import CAPABILITIES
from fedgraft.engine.plan import REPORTED, SCORES, Plan
from fedgraft.engine.protocol import (
    masking_kinds,
    scoring_kinds,
    smoothing_kinds,
    training_kinds,
    transport_kinds,
)
from fedgraft.engine.protocol.message_kind import MessageKind, Reply

_ROWS: Final = (
    *training_kinds.KINDS,
    *scoring_kinds.KINDS,
    *smoothing_kinds.KINDS,
    *masking_kinds.KINDS,
    *transport_kinds.KINDS,
)
_KNOWN: Final = {row.name: row for row in _ROWS}
TABLE: Final = MappingProxyType(_KNOWN)
"""{kind: its row}."""
Answer: TypeAlias = Callable[[Plan, Any], Mapping[str, float]]
"""Returns what a client answers, {name: scalar}, of (plan, its prepared data)."""
OUTSIDE: Final[dict[str, tuple[frozenset[str], Answer]]] = {}
"""{kind from outside: (names of its scalars, how clients answer)}."""

for _row in _ROWS:
    if _row.number is not None:
        wire.declare(_row.name, _row.number, _row.detail)


def declare(name: str, number: int, says: str, tells: Mapping[str, str], answer: Answer) -> None:
    """Add a kind of message from outside: clients that have trained answer with scalars of their data.

    They are asked after each round where the selector `reports` one of these scalars, and it hears all of them.

    Args:
        name: its word.
        number: on the wire, in [128, 255].
        says: what a reply holds, in words for pages.
        tells: {name of a scalar: what it discloses of a client, a word of `contracts.capabilities`}.
        answer: a function of a module, which worker processes import.

    Raises:
        ValueError: for a kind or a scalar that there is, for another number, and for a word that is no capability.
    """
    if (name in _KNOWN and name not in OUTSIDE) or not 128 <= number <= 255:
        needed = "A kind of message from outside has a name of its own and a number in [128, 255]"
        raise ValueError(f"{needed}; got {name!r}, {number}.")
    if taken := tells.keys() & {*REPORTED, *SCORES, "update"}:
        raise ValueError(f"Scalars of the kind of message {name!r} must have names of their own; got {sorted(taken)}.")
    if strange := {*tells.values()} - CAPABILITIES.keys():
        raise ValueError(f"What scalars disclose must be among {', '.join(CAPABILITIES)}; got {sorted(strange)}.")

    def asked(plan: Plan) -> bool:
        return plan.collection.single and not plan.reports.isdisjoint(tells)

    reply = Reply(names=lambda plan: tuple(tells), tells=lambda plan: set(tells.values()))
    wire.declare(name, number)
    _KNOWN[name] = MessageKind(name, number, "probe", says, asked=asked, reply=reply)
    OUTSIDE[name] = frozenset(tells), answer
