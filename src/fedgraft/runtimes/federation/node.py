"""A node: holds one client's data and what the client remembers, and answers orders."""

import logging
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from fedgraft import wire
from fedgraft.contracts.runtime import FINGERPRINT_BYTES
from fedgraft.engine.client.client import Client
from fedgraft.engine.client.client_memory import packed as packed_memory
from fedgraft.engine.client.client_rows import OPEN
from fedgraft.engine.client.failure_codes import code_of
from fedgraft.engine.client.own_secrets import RegisteredKeys
from fedgraft.engine.client.served_reply import ServedReply
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import Assurance
from fedgraft.engine.protocol import codes, transport
from fedgraft.engine.protocol.codes import refused_as
from fedgraft.errors import ClientError, FedgraftError, RefusedError, WireError, memory_shortage, printable
from fedgraft.runtimes.federation import envelope
from fedgraft.runtimes.federation.journal import OF_CLIENT, Journal
from fedgraft.runtimes.federation.memory_store import MemoryStore, store_of
from fedgraft.wire.encrypted_rows import RowSeal
from fedgraft.wire.layouts import Tree

LOG = logging.getLogger("fedgraft.node")
_RUN: Final = re.compile(r"[0-9a-f]{32}")
_GOES_ON: Final = "rows"
"""The kind of request that takes a round up that waits."""


class _Failed(Exception):
    """The client tried to serve a request whose failure counts as its answer, and could not.

    Args:
        error: why.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@dataclass
class _Joined:
    """A run that the node takes part in.

    Args:
        recipe: what is run, as the server said.
        client: serves it; None until all clients have agreed on how data are read.
        store: what the client remembers in it.
        about: what the node says of itself.
        hides: whether operations are not told, for what the client tells is masked or holds noise; in a simulation the
            experimenter counts them.
        served: requests of the round that waits in `client`; none where none waits.
        scored: the last model to score; the client knows it again by its identity.
        told: what the server had made of what the client claimed.
    """

    recipe: bytes
    client: Client | None
    store: MemoryStore
    about: Mapping[str, Tree]
    hides: bool = False
    served: list[bytes] = field(default_factory=list)
    scored: bytes = b""
    told: bytes = b""


def _cause(error: Exception) -> tuple[str, str]:
    """Return why an order could not be served: in words that stay here, and as a code for the server."""
    if isinstance(error, _Failed):
        return _cause(error.error)
    if isinstance(error, RefusedError):
        return str(error), error.code
    if lacked := memory_shortage(error):
        return lacked, codes.UNABLE
    if isinstance(error, FedgraftError | OSError):
        return str(error), code_of(error) if isinstance(error, ClientError) else codes.UNABLE
    return f"{type(error).__name__}: {error}", code_of(error)


def _client_of(joined: _Joined) -> Client:
    assert joined.client is not None, "nobody is asked to serve before that"
    return joined.client


@dataclass
class Node:
    """Answers orders to its client.

    The client's memory stays here. The server names by its fingerprint what the client is to go on from, so that a
    round can be made again: after the server, this node or an answer was lost, the same order has the same answer.

    Args:
        number: which client this node is.
        shard: its data.
        folder: where its memories are kept.
        plan_of: makes the plan of what a server says is run; raises `InputError` for what this node does not take.
        about: what the node says of itself when it joins, fields of `transport.JOINING`.
        take_model: keeps what a run leaves the client: (run, what was run, what the server sent, what the client
            remembers, the set-up message).
        read_data: returns the shard for what is run, by what the server has told, the run's name and its nonce in the
            journal, and what the node says of itself; no shard until clients have agreed on how data are read. None =
            `shard` and `about`, whatever is run.
        seal: what rows are encrypted with in a run, by its name, where it has them sealed; None = they are open.
        mask_root: makes the root of the secrets of masks and noise in a run, by its name and its nonce; None = as in a
            simulation.
        memory_key: makes the key by which memories of a run are named, by its name; None = as in a simulation.
        keys: makes what keys of masks are signed with in a run, by its name; None = as in a simulation.
        in_time: makes the block in which an order is answered; it raises where that takes too long.
        journal: by which a round is served once; None keeps none, and serves any.
    """

    number: int
    shard: Any
    folder: Path
    plan_of: Callable[[bytes], Plan]
    about: Mapping[str, Tree] = field(default_factory=dict)
    take_model: Callable[[str, bytes, bytes, bytes, bytes], None] | None = None
    read_data: Callable[[bytes, bytes, str, bytes], tuple[Any, Mapping[str, Tree]]] | None = None
    seal: Callable[[str], RowSeal] | None = None
    mask_root: Callable[[str, bytes], bytes] | None = None
    memory_key: Callable[[str], bytes] | None = None
    keys: Callable[[str], RegisteredKeys] | None = None
    in_time: Callable[[], AbstractContextManager[None]] = nullcontext
    journal: Journal | None = None
    _runs: dict[str, _Joined] = field(default_factory=dict, init=False)
    _reason: str = field(default="", init=False)

    def answer(self, data: bytes) -> bytes:
        """Return the answer to an order, both as bytes. Raises `WireError` for bytes that are no order."""
        order = envelope.opened(envelope.Order, data)
        if not _RUN.fullmatch(order.run):
            raise WireError("an order names no run")
        self._reason, failed = "", False
        try:
            with self.in_time():
                answer = self._answered(order)
        except Exception as error:  # whatever a server sends, and whatever lies in the folder: the node goes on
            (self._reason, code), failed = _cause(error), isinstance(error, _Failed)
            LOG.warning("Order %r could not be served: %s", order.kind, printable(self._reason))
            LOG.debug("Order %r", order.kind, exc_info=True)
            answer = self._response(order, envelope.REFUSED, code.encode())
        try:
            if self.journal:
                self.journal.enter(order, answer, self._told(order, answer), self._reason, failed)
                answer = replace(answer, head=self.journal.head)
        except FedgraftError as error:
            LOG.warning("Order %r has no answer, for it cannot be logged: %s", order.kind, error)
            answer = self._response(order, envelope.REFUSED, codes.UNABLE.encode())
        return transport.leaving(transport.ENVELOPE, envelope.tree(answer))

    def _told(self, order: envelope.Order, answer: envelope.Answer) -> Collection[str]:
        """What an answer tells of the client, if it holds a reply of his."""
        joined = self._runs.get(order.run)
        if order.kind not in OF_CLIENT or answer.status != envelope.SERVED or joined is None or joined.client is None:
            return ()
        return joined.client.tells(wire.kind_of(answer.reply))

    def _answered(self, order: envelope.Order) -> envelope.Answer:
        if order.kind == "join":
            joined = self._joined(order)
            self._runs = {order.run: joined}
            return self._response(order, envelope.SERVED, transport.leaving(transport.JOINING, joined.about))
        if order.client != self.number:
            raise RefusedError(f"this node is client {self.number}, not {order.client}", codes.ANOTHER)
        if order.run not in self._runs or self._runs[order.run].client is None:
            return self._response(order, envelope.STRANGE)
        if order.kind == "model":
            return self._taken(self._runs[order.run], order)
        return self._served_once(self._runs[order.run], order)

    def _joined(self, order: envelope.Order) -> _Joined:
        """Return a run to take part in: the one that is known, or with nothing but what is on disk."""
        if self.journal:
            self.journal.check_head(order.head)
        known = self._runs.get(order.run)
        if known and known.recipe == order.request and order.told in (b"", known.told):
            return known
        with refused_as(codes.RECIPE):
            plan = self.plan_of(order.request)
        self._runs = {}  # from here on the journal is this run's
        nonce = b""
        if self.journal:
            with refused_as(codes.LOG):
                nonce = self.journal.begin(order.run, plan)
            self.journal.check_points(order.told)
        shard, about = self.shard, self.about
        if self.read_data:
            with refused_as(codes.DATA):
                shard, about = self.read_data(order.request, order.told, order.run, nonce)
        client = None if shard is None else self._client(plan, shard, order.run, nonce)
        key = self.memory_key(order.run) if self.memory_key else b""
        hides = bool(key) and plan.collection.hides
        return _Joined(order.request, client, store_of(self.folder, order.run, key), about, hides, told=order.told)

    def _client(self, plan: Plan, shard: Any, run: str, nonce: bytes) -> Client:
        seal = self.seal(run) if self.seal and plan.encrypted else OPEN
        root = self.mask_root(run, nonce) if self.mask_root and plan.collection.hides else b""
        with refused_as(codes.KEYS):
            keys = self.keys(run) if self.keys and plan.collection.assurance == Assurance.SIGNED else None
        return Client(plan, {self.number: shard}, seal=seal, root=root, keys=keys)

    def _taken(self, joined: _Joined, order: envelope.Order) -> envelope.Answer:
        """Keep the model that a run leaves, with what the client remembers."""
        memory = joined.store.load(order.memory)
        set_up = order.set_up_message or joined.store.load_message(order.set_up)
        if memory is None:
            return self._response(order, envelope.LOST)
        if set_up is None:
            return self._response(order, envelope.UNSET)
        if self.take_model is not None:
            kept = _client_of(joined).rows.opened_message(self.number, set_up)
            self.take_model(order.run, joined.recipe, order.request, memory, kept)
        return self._response(order, envelope.SERVED, self.journal.end() if self.journal else b"")

    def _served_once(self, joined: _Joined, order: envelope.Order) -> envelope.Answer:
        """Serve a request, unless another one was served in its place, or its answer would be another one now."""
        if self.journal is None:
            return self._served(joined, order)
        self.journal.check(order)
        try:
            answer = self._served(joined, order)
        except Exception as error:
            if not self.journal.counts(order):
                raise
            self._reason, code = _cause(error)
            self.journal.check_answer(order, self._response(order, envelope.REFUSED, code.encode()))
            raise _Failed(error) from error
        self.journal.check_answer(order, answer)
        return answer

    def _served(self, joined: _Joined, order: envelope.Order) -> envelope.Answer:
        store, memory = joined.store, joined.store.load(order.memory)
        if memory is None:
            return self._response(order, envelope.LOST)
        set_up = order.set_up_message or store.load_message(order.set_up)
        if set_up is None:
            return self._response(order, envelope.UNSET)
        if order.set_up_message:
            store.keep_message(set_up)
        served = self._serve(joined, order, memory, set_up)
        kept = memory if served.memory is memory else packed_memory(served.memory)
        name = store.keep(kept) if kept or order.memory else b""  # nothing, where there was something, has a name too
        set_up_name = store.keep_message(order.request) if served.keep else order.set_up
        checkpoints = [order.keep[i : i + FINGERPRINT_BYTES] for i in range(0, len(order.keep), FINGERPRINT_BYTES)]
        store.drop_others([*checkpoints, order.memory, name, set_up_name])
        self._reason = served.reason
        flops = 0 if joined.hides else served.flops  # operations tell of data: how many numbers are not zero
        return envelope.Answer(
            order.id, order.run, self.number, envelope.SERVED, served.reply, name, set_up_name, flops
        )

    def _serve(self, joined: _Joined, order: envelope.Order, memory: bytes, set_up: bytes) -> ServedReply:
        """Have the client serve a request, behind all that its round began with where that is no longer here."""
        client, store = _client_of(joined), joined.store
        if order.kind == "serve":
            if wire.kind_of(order.request) == _GOES_ON:
                self._take_up(joined, order.request, memory, set_up)
            else:
                store.forget_round()
        joined.scored = joined.scored if order.scored == joined.scored else order.scored
        served = client.serve(self.number, order.request, memory, joined.scored, set_up)
        if served.waits:
            store.note(order.request)
        joined.served = store.round_requests() if served.waits else []
        return served

    def _take_up(self, joined: _Joined, request: bytes, memory: bytes, set_up: bytes) -> None:
        """Bring the client's round to where a request takes it up.

        The request may have been answered before, and be lost. In a simulation another process may have served what
        came before it.
        """
        before = joined.store.round_requests()
        if request in before:
            before = before[: before.index(request)]
        elif before == joined.served:
            return
        joined.store.forget_round()
        for each in before:
            _client_of(joined).serve(self.number, each, memory, b"", set_up)
            joined.store.note(each)

    def _response(self, order: envelope.Order, status: str, reply: bytes = b"") -> envelope.Answer:
        return envelope.Answer(order.id, order.run, self.number, status, reply, order.memory, order.set_up)
