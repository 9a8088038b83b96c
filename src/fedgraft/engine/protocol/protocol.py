"""The kinds of messages of one plan: names and layouts of both directions, and what replies tell.

A row of the table has one of three forms under a plan: each reply by itself, added up, or added up behind masks.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property

from fedgraft.contracts.capabilities import CAPABILITIES
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import TOTAL
from fedgraft.engine.protocol import masking_kinds
from fedgraft.engine.protocol.masking_kinds import MaskLayouts
from fedgraft.engine.protocol.message_kind import Addition, MessageKind
from fedgraft.engine.protocol.table import OUTSIDE, TABLE
from fedgraft.errors import BeyondLimitError, UnknownRequestError
from fedgraft.wire import Message
from fedgraft.wire.layouts import Layout, joined

_NOTHING = Layout(())


class Form:
    """Rows as they are: each client's reply is sent by itself.

    Args:
        plan: what both ends agreed on.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def names(self, row: MessageKind) -> tuple[str, ...]:
        """Return the names of the scalars in a request, in order."""
        return row.request.names(self._plan) if row.request else ()

    def request(self, row: MessageKind) -> Layout | None:
        """Return the layout of the arrays in a request; None where it never holds any."""
        return row.request.layout(self._plan) if row.request and row.request.layout else None

    def most(self, row: MessageKind) -> Layout | None:
        """Return the layout of the model in a request with the largest number in place of each `VARIABLE`, if any."""
        return row.request.bounds(self._plan) if row.request and row.request.bounds else None

    def report(self, row: MessageKind) -> tuple[str, ...]:
        """Return the names of the scalars in a reply, in order."""
        return row.reply.names(self._plan) if row.reply else ()

    def reply(self, row: MessageKind) -> Layout | None:
        """Return the layout of the arrays in a reply; None where it never holds any."""
        return row.reply.layout(self._plan) if row.reply and row.reply.layout else None

    def largest(self, row: MessageKind) -> Layout | None:
        """Return that layout with the largest number in place of each `VARIABLE`; None where the row does not say."""
        return None

    def tells(self, row: MessageKind) -> set[str]:
        """Return what a reply tells of a client."""
        return row.reply.tells(self._plan) if row.reply else set()

    def several(self, row: MessageKind) -> int:
        """Return how many different requests of a round are answered, whatever a policy allows."""
        return row.several(self._plan)


class AddedForm(Form):
    """Rows of what is added up have the order and the reply of a sum in place of their own: no scalars, whole codes."""

    def names(self, row: MessageKind) -> tuple[str, ...]:
        """Return the row's own and those of the sum."""
        return (*super().names(row), *(row.added.names(self._plan) if row.added else ()))

    def request(self, row: MessageKind) -> Layout | None:
        """Return the row's own and what the sum takes."""
        own = super().request(row)
        if row.added is None:
            return own
        layout = joined(own or _NOTHING, self._ordered(row.added))
        return None if own is None and not layout.specs else layout

    def _ordered(self, added: Addition) -> Layout:
        return added.request(self._plan)

    def report(self, row: MessageKind) -> tuple[str, ...]:
        """Return none in a part of a sum."""
        return () if row.added else super().report(row)

    def reply(self, row: MessageKind) -> Layout | None:
        """Return the layout of a part of a sum."""
        return row.added.reply(self._plan) if row.added else super().reply(row)

    def largest(self, row: MessageKind) -> Layout | None:
        """Return that of a part of a sum."""
        return row.added.bounds(self._plan) if row.added and row.added.bounds else None

    def several(self, row: MessageKind) -> int:
        """Return one of what is added: its sums are numbered."""
        return 1 if row.added else super().several(row)


class MaskedForm(AddedForm):
    """Parts of sums are masked: orders bring what neighbours have sealed, and replies tell what a sum tells."""

    def _ordered(self, added: Addition) -> Layout:
        return joined(super()._ordered(added), MaskLayouts.of(self._plan).encrypted)

    def tells(self, row: MessageKind) -> set[str]:
        """Return what a masked sum tells of a client all the same."""
        return row.added.tells(self._plan) if row.added else super().tells(row)


def form_of(plan: Plan) -> Form:
    """Return how rows look where updates are collected as a plan says."""
    collection = plan.collection
    if collection.single:
        return Form(plan)
    return MaskedForm(plan) if collection.assurance else AddedForm(plan)


class Protocol:
    """Read the table for a plan. `Protocol.of(plan)` is made once for each plan.

    Args:
        plan: what both ends agreed on.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._form = form_of(plan)

    @classmethod
    def of(cls, plan: Plan) -> "Protocol":
        """Return that of a plan."""
        return plan.derived(cls)

    @cached_property
    def rows(self) -> Mapping[str, MessageKind]:
        """{kind: its row} of the messages of the wire that there are under the plan."""
        return {name: row for name, row in TABLE.items() if row.number is not None and row.asked(self._plan)}

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the replies that clients are asked for."""
        return tuple(name for name, row in self.rows.items() if row.reply and name != "error")

    @property
    def outside(self) -> tuple[str, ...]:
        """Those of them from outside, which bring a selector scalars."""
        return tuple(name for name in self.rows if name in OUTSIDE)

    def check(self, kind: str, round: int) -> None:
        """Raise `UnknownRequestError` for a kind that the plan does not have, or has in other rounds alone."""
        row = self.rows.get(kind)
        if row is None or row.request is None:
            raise UnknownRequestError(f"under these options no client answers a message of kind {kind!r}")
        if not row.within(round, self._plan):
            raise BeyondLimitError(f"a message of kind {kind!r} of round {round}: it is for rounds: {row.rounds.words}")

    # --- layouts -----------------------------------------------------------------------------------------------------

    @cached_property
    def _known(self) -> Mapping[str, MessageKind]:
        """{kind: its row} of all that has a layout: also what is not asked for, whose size is known all the same."""
        absent = {row.name for row in masking_kinds.KINDS if not row.asked(self._plan)}
        return {name: row for name, row in TABLE.items() if row.number is not None and name not in absent}

    @cached_property
    def request_names(self) -> dict[str, tuple[str, ...]]:
        """{kind: names of the scalars in a request of this kind, in order}."""
        return {name: self._form.names(row) for name, row in self._known.items()}

    @cached_property
    def request_layouts(self) -> dict[str, Layout]:
        """{kind: layout of the arrays in a request}; absent where a request never holds any."""
        return _present(self._known, self._form.request)

    @cached_property
    def request_bounds(self) -> dict[str, Layout]:
        """{kind: layout of the model in a request, the largest possible number in place of each `VARIABLE`}."""
        return _present(self._known, self._form.most)

    @cached_property
    def reply_names(self) -> dict[str, tuple[str, ...]]:
        """{kind: names of the scalars in a reply of this kind, in order}: none in a part of a sum."""
        return {name: self._form.report(row) for name, row in self._known.items()}

    def report(self, kind: str) -> tuple[str, ...]:
        """Return the names of the scalars in a reply of this kind, in order."""
        return self.reply_names.get(kind, ())

    @cached_property
    def reply_layouts(self) -> dict[str, Layout]:
        """{kind: layout of the arrays in a reply}; absent where a reply never holds any."""
        return _present(self._known, self._form.reply)

    @cached_property
    def reply_bounds(self) -> dict[str, Layout]:
        """{kind: that layout, the largest number in place of each `VARIABLE`}, where the table says so."""
        return _present(self._known, self._form.largest)

    def several(self, kind: str) -> int:
        """Return how many different requests of a kind a client answers in a round, whatever a policy allows."""
        return self._form.several(TABLE[kind]) if kind in TABLE else 1

    # --- what replies tell -------------------------------------------------------------------------------------------

    @cached_property
    def tells(self) -> dict[str, frozenset[str]]:
        """{kind of reply: words of `CAPABILITIES`} for each reply that clients send under the plan.

        Raises `TypeError` where a method has an array sent of which it does not say what it tells.
        """
        return {name: self.told(name) for name in (*self.kinds, "error")}

    def told(self, kind: str) -> frozenset[str]:
        """Return what a reply of one of `kinds` tells, see `tells`: of an update it takes a model to know that."""
        words = self._form.tells(TABLE[kind])
        if strange := words - CAPABILITIES.keys():
            raise TypeError(f"A message of kind {kind!r} tells {sorted(strange)}, of {', '.join(CAPABILITIES)}.")
        return frozenset(words)

    @cached_property
    def spends(self) -> dict[str, int]:
        """{kind: how many replies of a run the claim of privacy counts}; {} where nothing holds noise."""
        if not self._plan.collection.noisy:
            return {}
        return {name: count for name, row in self.rows.items() if (count := row.spends(self._plan))}


def _present(rows: Mapping[str, MessageKind], layout: Callable[[MessageKind], Layout | None]) -> dict[str, Layout]:
    """Return {kind: layout} of the rows that have one."""
    return {name: found for name, row in rows.items() if (found := layout(row)) is not None}


def digest_of(plan: Plan, order: Message) -> bytes:
    """Return a SHA-256 of what all have alike who add to a sum: the model, scales of codes, the total of weights.

    Who was sent another order confirms nobody else.
    """
    added, arrays = TABLE[order.kind].added, order.arrays or {}
    digest = hashlib.sha256(f"{order.kind} {order.report.get(TOTAL, 0.0)}".encode())
    for spec in added.common(plan) if added else ():
        digest.update(arrays[spec.name].tobytes())
    return digest.digest()
