"""A client: bytes in, bytes out. Written once, run by every runtime.

A client keeps nothing between rounds but its memory, which goes in and comes out, and its own shard. So the same code
serves in a worker process, in a simulator and on another machine, and a checkpoint of all memories is a checkpoint of
all clients. Within a round, a client that waits for halo rows stays where it is, as live objects; a runtime that loses
it serves the round's requests anew.
"""

import logging
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeAlias

from fedgraft import wire
from fedgraft.contracts import randomness
from fedgraft.contracts.data import LRUCache, Shards
from fedgraft.engine import coded_arrays
from fedgraft.engine.client import own_scores
from fedgraft.engine.client.client_memory import Kept, Memory, same, settled, unpacked
from fedgraft.engine.client.client_rows import OPEN, ClientRows
from fedgraft.engine.client.contribution import RegisteredKeys, contribution_of
from fedgraft.engine.client.local_round import ClientModel, LocalRound, Order, ensemble_of, probed
from fedgraft.engine.client.served_reply import Latest, ServedReply, code_of, sound
from fedgraft.engine.client.smoothing import Smoothing
from fedgraft.engine.plan import PROGRESS_STEPS, Plan
from fedgraft.engine.protocol.gate import Gate
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.table import OUTSIDE, TABLE
from fedgraft.errors import BeyondLimitError, ClientError, memory_shortage, printable
from fedgraft.nn import flops
from fedgraft.wire import Message
from fedgraft.wire.encrypted_rows import RowSeal
from fedgraft.wire.layouts import Arrays, part_of

Buffer: TypeAlias = bytes | memoryview
LOG = logging.getLogger("fedgraft.client")
Given: TypeAlias = Mapping[int, Any] | Shards[Any]
"""Shards by client: all of them, or what makes each when it is asked for."""
MOST_TRIED = 10
"""Epochs that a client tries at most before it is chosen, or as many as a round has."""
PREPARED = 256
"""Clients whose prepared data a process keeps where shards can be made again: some cohorts, and a sample to score."""


def most_prepared(shards: Given) -> int | None:
    """Return how many clients' prepared data a process keeps; None = all."""
    return PREPARED if isinstance(shards, Shards) else None


class Client:
    """Serves the requests of the given clients, one at a time, with one model for all of one variant.

    Their own shards, by client, are prepared when first needed, then kept: all, or the last `most_prepared`. Callers
    that run several experiments on the same shards say in `prepared` where. `seal` encrypts rows, `root`
    the secret of masks, and `keys` what signs their keys, see `Masking`; None = those of a simulation.
    """

    def __init__(
        self,
        plan: Plan,
        shards: Given,
        prepared: dict[int, Any] | None = None,
        seal: RowSeal = OPEN,
        root: bytes = b"",
        keys: RegisteredKeys | None = None,
    ) -> None:
        self._plan, self._shards, self._gate, self._protocol = plan, shards, Gate(plan), Protocol.of(plan)
        self._most = most_prepared(shards) if prepared is None else None
        self._prepared: dict[int, Any] = LRUCache(self._most) if prepared is None else prepared
        self._models: dict[Hashable, ClientModel] = {}
        self.rows = ClientRows(plan, shards, seal)
        self._contribution = contribution_of(plan, root, keys)
        self._smoothing = Smoothing(plan, self._contribution, root)
        self._rounds: dict[int, LocalRound] = {}  # those that wait for rows
        self._set_ups: dict[int, Buffer] = {}
        self._relayed: dict[int, tuple[Buffer, Any]] = {}
        self._requests: Latest[Message] = Latest()
        self._scored: Latest[Arrays] = Latest()
        self._received: Latest[tuple[Arrays, int]] = Latest()
        masking = self._contribution.masking
        self._handlers: dict[str, Callable[[int, Message, Memory], Message]] = {
            "hello": self._hello,
            "statistics": self._statistics,
            "publish": self._publish,
            "probe": self._probe,
            "trial": self._try,
            "train": self._train,
            "alone": self._train,
            "rows": self._go_on,
            "evaluate": self._evaluate,
            **{name: self._smooth for name, row in TABLE.items() if row.purpose == "smoothing"},
            **({name: masking.served for name, row in TABLE.items() if row.purpose == "masking"} if masking else {}),
        }

    def serve(
        self, client: int, request: Buffer, memory: Kept, scored: Buffer = b"", set_up: Buffer = b""
    ) -> ServedReply:
        """Answer one request, an encoded message, of the server or of the experimenter.

        `memory` is what the client remembered after its last request, or its bytes; b"" at first. `scored` is an
        encoded message with the model that the experimenter asks about; b"" for any other request. `set_up` is the
        request of this client that had to be kept, b"" for none; needed once, after its first.

        Whatever goes wrong at the client comes back as a message of kind "error" with a code (`protocol.codes`), and
        the memory as it was. Only what `memory_shortage` recognises is raised: whose failure it is, the runtime knows.
        """
        round = 0
        if set_up and client not in self._prepared:
            self._set_ups[client] = set_up
        try:
            kind, round, _ = wire.place_of(request)
            self._protocol.check(kind, round)
            message = self._requests.of(
                request, lambda: wire.decode(request, self._protocol.request_layouts, self._protocol.request_names)
            )
            outside = TABLE[kind].outside
            if not outside:
                self._relayed.pop(client, None)
            if kind != "rows":
                self._rounds.pop(client, None)
            remembered = unpacked(memory)
            before = dict(remembered)
            with flops.Meter() as meter, self._seeded(message, client):
                if outside:
                    reply = self._measure(client, message, scored, remembered)
                else:
                    reply = self._handlers.get(kind, self._of_outside)(client, message, remembered)
            encoded = self._gate.passed(reply, partial(self._fewest, client))
            spent = 0 if outside else meter.flops
            if reply.kind == "wait":
                return ServedReply(encoded, memory, flops=spent, waits=True)
            if kind == "statistics" and self._most is not None:  # to prepare the client's data with it, once or more
                self._set_ups[client] = bytes(request)
            after = memory if same(remembered, before) else settled(remembered)
            return ServedReply(encoded, after, kind == "statistics", spent)
        except Exception as error:  # a client's failure is its reply, whatever it was
            self._rounds.pop(client, None)
            if memory_shortage(error):
                raise
            text = str(error) if isinstance(error, ClientError) else f"{type(error).__name__}: {error}"
            LOG.info("Client %s, round %s: %s", client, round, printable(text))
            LOG.debug("Client %s, round %s", client, round, exc_info=True)
            return ServedReply(self._gate.passed(Message("error", round, text=code_of(error))), memory, reason=text)

    def tells(self, kind: str) -> frozenset[str]:
        """Return what replies of a kind tell of a client, by words of `contracts.capabilities`."""
        return self._protocol.tells.get(kind, frozenset())

    def _seeded(self, message: Message, client: int) -> AbstractContextManager[None]:
        """Torch's own generators seeded for one request, where the task has any use for them."""
        plan = self._plan
        if not plan.task.stochastic:
            return nullcontext()
        role = f"rows-{message.segment}" if message.kind == "rows" else message.kind  # a round's segments differ
        return randomness.seeded_torch(plan.seed, role, message.round, client, plan.device)

    def _fewest(self, client: int, told: frozenset[str]) -> int:
        """Over how few examples counts and means are; 0 where the task does not say."""
        return self._plan.counted.fewest(self._shards[client], told) if self._plan.counted else 0

    # --- set-up ------------------------------------------------------------------------------------------------------

    def _hello(self, client: int, message: Message, memory: Memory) -> Message:
        plan, shard = self._plan, self._shards[client]
        known = plan.task.survey(shard) or self._known(plan.task.prepare(shard, {}))
        report = {name: known[name] for name in self._protocol.report("hello")}
        published = plan.publishing.statistics(shard) if plan.publishing else {}
        if published:
            g = randomness.lazy(plan.seed, "rows-hello", 0, client)
            published = self.rows.published(client, published, g)
        return Message("hello", message.round, report, published or None)

    def _publish(self, client: int, message: Message, memory: Memory) -> Message:
        return self._contribution.statistics(client, message, memory, self._shards[client])

    def _of_outside(self, client: int, message: Message, memory: Memory) -> Message:
        """Answer a kind of message from outside."""
        _, answer = OUTSIDE[message.kind]
        return Message(message.kind, message.round, dict(answer(self._plan, self._data(client))))

    def _known(self, data: Any) -> dict[str, float]:
        """What prepared data tell of a client."""
        task = self._plan.task
        return {"examples": float(task.examples(data)), **task.describe(data)}

    def _statistics(self, client: int, message: Message, memory: Memory) -> Message:
        shared = self.rows.received(client, message.arrays or {})
        if self._most is not None:  # prepared when it is needed: most clients' data would be gone by then
            self._prepared.pop(client, None)
            return Message("statistics", message.round)
        self._prepared[client] = self._plan.task.prepare(self._shards[client], shared)
        return Message("statistics", message.round)

    # --- training ----------------------------------------------------------------------------------------------------

    def _probe(self, client: int, message: Message, memory: Memory) -> Message:
        plan = self._plan
        memory["probed"] = self._model_received(message, memory)
        data, model = self._load(client, memory["probed"], memory)
        return Message("probe", message.round, probed(plan, model.flat.module.eval(), data, message.round, client))

    def _try(self, client: int, message: Message, memory: Memory) -> Message:
        """Train from the current model and keep nothing of it but the model as it was."""
        memory["probed"] = self._model_received(message, memory)
        data, model = self._load(client, memory["probed"], memory)
        rate, epochs = self._plan.training.rate(message.progress / PROGRESS_STEPS), round(message.report["epochs"])
        if not 0 <= epochs <= (most := max(self._plan.training.epochs, MOST_TRIED)):
            raise BeyondLimitError(f"asked to try {epochs} epochs, of which {most} are the most")
        order = Order(message.round, client, False, memory["probed"], {}, rate, False)
        local = LocalRound(self._plan, self.rows, order, data, model, memory)
        return Message("trial", message.round, local.tried(epochs))

    def _train(self, client: int, message: Message, memory: Memory) -> Message:
        received = self._model_received(message, memory)
        memory.pop("probed", None)
        data, model = self._load(client, received, memory)
        plan, collects = self._plan, message.kind == "train"
        fresh = collects and message.arrays is not None  # who trains silently is sent a model at most
        if fresh and self._plan.halo:
            self._plan.halo.receive(data, self.rows.decode(client, message.arrays or {}))
        rate = self._plan.training.rate(message.progress / PROGRESS_STEPS)
        guidance = {name: message.report[name] for name in plan.guidance} if collects else {}
        examples = plan.task.examples(data)
        part = self._contribution.ordered(client, message, memory, examples) if collects else None
        order = Order(message.round, client, collects, received, guidance, rate, fresh, part=part)
        return self._run(LocalRound(self._plan, self.rows, order, data, model, memory), 0)

    def _go_on(self, client: int, message: Message, memory: Memory) -> Message:
        """Take up a round that waits for rows."""
        waiting = self._rounds.pop(client, None)
        if waiting is None or self._plan.halo is None:
            raise ClientError("sent rows that it does not wait for, or no longer: its process may have ended")
        self._plan.halo.receive(waiting.data, self.rows.decode(client, message.arrays or {}))
        reply = self._run(waiting, message.segment + 1)
        memory.clear()
        memory.update(waiting.memory)
        return reply

    def _run(self, local: LocalRound, segment: int) -> Message:
        """Train as far as it goes without rows that must be asked for."""
        reply = local.run(segment)
        if reply.kind == "wait":
            self._rounds[local.order.client] = local
        return reply

    # --- scoring -----------------------------------------------------------------------------------------------------

    def _measure(self, client: int, message: Message, scored: Buffer, memory: Memory) -> Message:
        """Serve the experimenter: relay a layer of halo states, or evaluate, under the model to score."""
        plan, arrays = self._plan, message.arrays or {}
        model = self._scored.of(scored, lambda: wire.decode(scored, self._protocol.request_layouts).arrays or {})
        received = sound(part_of(model, plan.model_layout))
        data, loaded = self._load(client, received, {**memory, "states": None}, scored)
        if plan.halo:
            plan.halo.receive(data, self.rows.read(client, arrays))
        if message.kind == "relay" and plan.halo:
            rows = plan.halo.relay(loaded.flat.module.eval(), data, message.layer)
            self._relayed[client] = scored, plan.halo.opened(data, None)  # without the halo, which comes again
            return Message("relay", message.round, arrays=self.rows.raw(client, rows))
        return self._evaluated(client, message, model, data, loaded, memory)

    def _evaluate(self, client: int, message: Message, memory: Memory) -> Message:
        if self._plan.silent:
            received = self._model_received(message, memory)
        else:
            received = sound(self._plan.decoded_scored(message.arrays or {}))
        data, model = self._load(client, part_of(received, self._plan.model_layout), memory)
        reply = self._evaluated(client, message, received, data, model, memory)
        return self._contribution.scores(client, message, memory, reply)

    def _evaluated(
        self, client: int, message: Message, received: Arrays, data: Any, model: ClientModel, memory: Memory
    ) -> Message:
        """Sums under the model that was received, and after local steps from it, of which nothing is remembered."""
        plan = self._plan
        reply = own_scores.kept(plan, part_of(received, plan.model_layout), data, model, memory)
        if plan.local_steps:
            free, own = TABLE[message.kind].outside, dict(memory)
            order = own_scores.order_ahead(plan, client, message, received)
            opened = self._seen(client, message, memory)
            model = self._loaded(received, memory, data)
            local = LocalRound(plan, self.rows, order, opened, model, own)
            seen = partial(self._seen, client, message, {} if free else memory)
            reply |= own_scores.after_steps(plan, local, seen)
        return Message(message.kind, message.round, {}, reply)

    def _seen(self, client: int, message: Message, memory: Memory) -> Any:
        """The client's data with the halo states that it remembers, and those that came with a request to score."""
        plan, data = self._plan, self._data(client)
        if plan.halo is None:
            return data
        data = plan.halo.opened(data, memory.get("states"))
        if TABLE[message.kind].outside:
            plan.halo.receive(data, self.rows.read(client, message.arrays or {}))
        return data

    def _smooth(self, client: int, message: Message, memory: Memory) -> Message:
        """Take part in smoothing answers, with the model that the client ends up with."""
        plan = self._plan
        if message.kind != "smooth":
            return self._smoothing.served(client, message, self._data(client), memory)
        coded = part_of(message.arrays or {}, plan.downlink.encoded(plan.model_layout))
        received = sound(plan.downlink.decode(coded, plan.model_layout))
        data, model = self._load(client, received, memory)
        best = memory.get("best") if plan.personal and plan.keep_best else None
        if best:
            model.flat.load(best["arrays"])
        others = best["others"] if best else plan.ensemble(received, memory.get("sharing"))
        return self._smoothing.served(client, message, data, memory, ensemble_of(plan.task, model.flat, others))

    # --- models and data ---------------------------------------------------------------------------------------------

    def _model_received(self, message: Message, memory: Memory) -> Arrays:
        """The shared parameters that a request brought, or those of this round's probe."""
        plan = self._plan
        if message.arrays is not None:
            arrays = coded_arrays.completed(plan, message.arrays, memory)
            received, spent = self._received.of(arrays, lambda: self._decoded(arrays))
            flops.count(spent // 2)
            if plan.silent:
                memory["held"] = received
            return received
        if plan.silent:
            held: Arrays = memory.get("held", plan.first)
            return held
        if "probed" not in memory:
            raise ClientError(f"asked to {message.kind} without a model")
        probed: Arrays = memory["probed"]
        return probed

    def _decoded(self, arrays: Arrays) -> tuple[Arrays, int]:
        """A model behind the downlink's codec, and the operations that decoding takes at every client."""
        plan = self._plan
        with flops.Meter() as meter:
            decoded = sound(plan.downlink.decode(part_of(arrays, plan.coded_download_layout), plan.download_layout))
        return decoded, meter.flops

    def _load(self, client: int, received: Arrays, memory: Memory, scored: Buffer = b"") -> tuple[Any, ClientModel]:
        """The client's prepared data with its halo states, and its model as the client itself uses it.

        States relayed under a model that is `scored` are those of the same scoring, or none.
        """
        plan, data = self._plan, self._data(client)
        if plan.halo:
            relayed, kept = self._relayed.pop(client, (b"", None))
            data = kept if scored and relayed is scored else plan.halo.opened(data, memory.get("states"))
        return data, self._loaded(received, memory, data)

    def _loaded(self, received: Arrays, memory: Memory, data: Any) -> ClientModel:
        """The model of a client with these data, as the client itself uses it."""
        plan = self._plan
        model = self._model(plan.task.variant(data))
        own = plan.personalise(received, memory.get("sharing"))
        private = memory.get("private") or {name: model.flat.initial[name] for name in model.private}
        model.flat.load({**private, **{name: own[name] for name in plan.first}})
        return model

    def _data(self, client: int) -> Any:
        """The client's data as they were prepared."""
        if client not in self._prepared:
            shared = self.rows.shared_in(client, self._set_ups.get(client, b""))
            self._prepared[client] = self._plan.task.prepare(self._shards[client], shared)
            if self._most is None:
                self._set_ups.pop(client, None)
        return self._prepared[client]

    def _model(self, variant: Hashable) -> ClientModel:
        if variant not in self._models:
            self._models[variant] = ClientModel.of(self._plan, variant)
        return self._models[variant]
