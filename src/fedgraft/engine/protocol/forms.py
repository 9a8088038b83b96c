"""Forms of the table's rows under a plan: each reply by itself, added up, or added up behind masks."""

from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.masking_kinds import MaskLayouts
from fedgraft.engine.protocol.message_kind import Addition, MessageKind
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
