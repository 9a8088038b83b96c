"""A row of the protocol's table: all that both ends, a policy, an audit log and a page say of one kind of message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from fedgraft.engine.plan import REPORTED, SCORES, Plan
from fedgraft.wire.layouts import Layout, Spec

Names: TypeAlias = Callable[[Plan], tuple[str, ...]]
Arrays: TypeAlias = Callable[[Plan], Layout]
Words: TypeAlias = Callable[[Plan], set[str]]


def nothing(plan: Plan) -> Layout:
    """Return a layout without arrays."""
    return Layout(())


def no_names(plan: Plan) -> tuple[str, ...]:
    """Return no names of scalars."""
    return ()


def no_words(plan: Plan) -> set[str]:
    """Return no capability."""
    return set()


def always(plan: Plan) -> bool:
    """Return True, under every plan."""
    return True


class Rounds(Enum):
    """In which rounds a kind is asked for; (first, last), None = the plan's last."""

    BEFORE = (0, 0)
    TRAINING = (1, None)
    ANY = (0, None)

    @property
    def words(self) -> str:
        """str, for pages."""
        return {"BEFORE": "0, before training", "TRAINING": "each round", "ANY": "any"}[self.name]


@dataclass(frozen=True)
class Addition:
    """How replies of a kind are added up over clients, where updates are.

    Args:
        segment: number of the sum in its round, and so of its pad, which no other kind has. Kinds of several sums of a
            round count on from it.
        names: of the scalars that the order has beside its own.
        request: layout of the arrays that the order has beside its own.
        reply: layout of the reply in place of that of single answers.
        common: layout of the arrays of an order that all have alike who add something to the sum, such as the model.
        bounds: layout of the reply with the largest number in place of each `VARIABLE`; None where its size is known
            by more than the plan.
        tells: what a masked sum tells of a client all the same.
    """

    segment: int
    reply: Arrays
    names: Names = no_names
    request: Arrays = nothing
    common: Arrays = nothing
    bounds: Arrays | None = None
    tells: Words = no_words


@dataclass(frozen=True)
class Request:
    """What a request holds.

    Args:
        names: of its scalars.
        layout: of its arrays; None where it never holds any.
        bounds: that layout with the largest number in place of each `VARIABLE`; None where there are none.
    """

    names: Names = no_names
    layout: Arrays | None = None
    bounds: Arrays | None = None


@dataclass(frozen=True)
class Reply:
    """What a reply holds.

    Args:
        names: of its scalars.
        layout: of its arrays; None where it never holds any.
        tells: of a client, in words of `contracts.capabilities`.
        held_out: whether it tells of held-out examples alone.
    """

    names: Names = no_names
    layout: Arrays | None = None
    tells: Words = no_words
    held_out: bool = False


@dataclass(frozen=True)
class MessageKind:
    """One kind of message.

    Args:
        name: its word.
        number: on the wire, never used again; None where it travels outside messages of the wire.
        purpose: that the ledger charges its bytes to, and a policy allows.
        says: what a reply holds, in words for pages.
        asked: whether clients are asked for it under a plan.
        rounds: in which rounds.
        once: whether it is answered once in a run, whatever round it names.
        several: how many different requests of a round are answered, whatever a policy allows.
        detail: what the sixteen bits beside the kind say: "progress", "segment", "layer", or nothing.
        request: what a request holds; None where there is none: "wait" and "error" are replies alone.
        reply: what a reply holds; None where clients do not reply: "scored" and "rows" are requests alone.
        added: how replies are added up; None where each leaves by itself.
        spends: how many replies of one run spend privacy; 0 = none.
        error: what an error in place of a reply is.
        outside: whether the experimenter asks, outside the protocol: remembered states play no part, and the work is
            not counted.
        fields: of what travels outside messages of the wire, {name: how it may be made}.
    """

    name: str
    number: int | None
    purpose: str
    says: str
    asked: Callable[[Plan], bool] = always
    rounds: Rounds = Rounds.TRAINING
    once: Callable[[Plan], bool] = field(default=lambda plan: False)
    several: Callable[[Plan], int] = field(default=lambda plan: 1)
    detail: str = ""
    request: Request | None = Request()
    reply: Reply | None = Reply()
    added: Addition | None = None
    spends: Callable[[Plan], int] = field(default=lambda plan: 0)
    error: str = "a code"
    outside: bool = False
    fields: Mapping[str, Field] = field(default_factory=dict)

    def within(self, round: int, plan: Plan) -> bool:
        """Return whether a round is one in which it is asked for."""
        first, last = self.rounds.value
        most = plan.rounds if last is None else last
        return first <= round and (round <= most or (last is None and not plan.rounds))


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


_SCALARS: Final = {"examples": "sizes", **dict.fromkeys(REPORTED, "losses"), **dict.fromkeys(SCORES, "scores")}


def of_arrays(specs: Iterable[Spec]) -> set[str]:
    """Return the words of arrays. Raises `TypeError` for one whose method does not say what it tells."""
    words = {spec.name: spec.tells for spec in specs}
    if unsaid := [name for name, word in words.items() if not word]:
        raise TypeError(f"The Spec of array {unsaid[0]!r} must say what it tells of a client.")
    return set(words.values())


def of_scalars(plan: Plan, names: Iterable[str]) -> set[str]:
    """Return the words of scalars: those of every training, or those of a task's profile and of a sampler's scores."""
    return {"class_counts" if name in plan.task.profile else _SCALARS.get(name, "losses") for name in names}


def of_states(plan: Plan) -> set[str]:
    """Return the word of hidden states, where clients exchange any."""
    return {"states"} if plan.halo_widths else set()


def of_upload(plan: Plan) -> set[str]:
    """Return the words of an update: of the model's parameters as its task says, of others as who adds them."""
    learnt = {*plan.model_layout.names, *plan.first_sampler}
    specs = list(plan.upload_layout)
    words = of_arrays(spec for spec in specs if spec.name not in learnt)
    return words | (set(plan.task.update_tells) if learnt & {spec.name for spec in specs} else set())
