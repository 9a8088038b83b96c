"""A new kind of message is one row and two functions: who asks, and who answers. All else reads the row."""

from types import MappingProxyType

import pytest

from fedgraft import wire
from fedgraft.engine.client.client import Client
from fedgraft.engine.privacy.policy import Policy
from fedgraft.engine.protocol import protocol, table
from fedgraft.engine.protocol.gate import Gate
from fedgraft.engine.protocol.message_kind import MessageKind, Reply, Request, Rounds
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.exchange import Exchange
from fedgraft.engine.server.ledger import Ledger
from fedgraft.engine.server.limits import Limits
from fedgraft.errors import BeyondLimitError
from fedgraft.runtimes.federation import places
from fedgraft.testing.runs import here, toy
from fedgraft.wire import Message

AGE = MessageKind(
    "age",
    200,
    "statistics",
    "how old its data are",
    rounds=Rounds.BEFORE,
    once=lambda plan: True,
    request=Request(names=lambda plan: ("days",)),
    reply=Reply(names=lambda plan: ("age",), tells=lambda plan: {"sizes"}),
)


def ask(exchange, plan, clients):
    """The server's function."""
    kinds = Protocol.of(plan)
    request = wire.encode(Message("age", 0, {"days": 1.0}), None, kinds.request_names["age"])
    limits = dict.fromkeys(clients, Limits(plan).reply_bytes("age"))
    return exchange.send("age", 0, dict.fromkeys(clients, request), limits)


def answer(client, message, memory):
    """The client's function."""
    return Message("age", 0, {"age": 7.0 * message.report["days"] + client})


@pytest.fixture
def plan(monkeypatch):
    rows = MappingProxyType({**table.TABLE, "age": AGE})
    for module in (table, protocol, places):
        monkeypatch.setattr(module, "TABLE", rows)
    for module in ("client.client", "server.exchange", "protocol.gate"):
        monkeypatch.setattr(f"fedgraft.engine.{module}.TABLE", rows)
    wire.declare("age", 200)
    made = Client.__init__

    def with_answer(self, *given, **named):
        made(self, *given, **named)
        self._handlers["age"] = answer

    monkeypatch.setattr(Client, "__init__", with_answer)
    yield toy().plan
    wire.messages.KINDS.pop("age")
    wire.messages._KIND_NAMES.pop(200)


def test_a_row_and_two_functions_are_a_kind(plan):
    experiment, ledger = toy(), Ledger()
    runtime = here(plan, experiment.data.load(experiment.seed))
    replies = ask(Exchange(plan, runtime, ledger, 5.0), plan, [0, 1, 2])
    assert {client: message.report["age"] for client, message in replies.messages.items()} == {0: 7.0, 1: 8.0, 2: 9.0}
    assert ledger.totals["statistics"] + ledger.totals["header"] > 0, "its bytes have a purpose"
    assert ledger.totals["up"] == 3 * Limits(plan).reply_bytes("age") - 3 * (wire.TEXT_BYTES - 4), "and a bound"


def test_what_it_tells_is_known_to_gate_policy_and_journal(plan):
    gate = Gate(plan)
    assert "age" in Protocol.of(plan).kinds
    assert gate.told_by(["age"]) == {"sizes"}
    assert gate.purposes_of(["age"]) == {"statistics"}
    assert places.Places(plan).taken("age", 0, 0) == [("age", 0, 0)]
    assert places.Places(plan).outside("age", 1) != ""
    closed = Gate(toy(policy={"capabilities": ["update"]}).plan)
    with pytest.raises(BeyondLimitError, match=r"policy\.capabilities has no 'sizes'"):
        closed.passed(Message("age", 0, {"age": 1.0}))
    assert Policy(capabilities=("sizes",)).limits
