"""A client's whole round: bytes in, bytes out. Written once, run by every runtime.

A client keeps nothing between requests but its memory, which goes in and comes out, and its own shard. So the same code
serves in a worker process, in a simulator and on another machine, and a checkpoint of all memories is a checkpoint of
all clients.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch

from fedgraft import wire
from fedgraft.contracts import Draw, Sums, randomness
from fedgraft.contracts.scores import improves
from fedgraft.engine.client.client_memory import Kept, Memory, same, settled, unpacked
from fedgraft.engine.client.ensemble import answering
from fedgraft.engine.client.local_trainer import LocalTrainer, Paused
from fedgraft.engine.halo_codec import Courier, asked_arrays, part_of
from fedgraft.engine.plan import PROGRESS_STEPS, SPLITS, Plan
from fedgraft.engine.training import Optimizer
from fedgraft.errors import ClientError
from fedgraft.nn import flops
from fedgraft.nn.flat_model import FlatModel
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays, Tree, finite

Buffer: TypeAlias = bytes | memoryview
FREE = ("measure", "relay")
"""Requests of the experimenter: what a client remembers of nodes plays no part, and its work is not counted."""


@dataclass(frozen=True)
class _Model:
    flat: FlatModel
    optimizer: Optimizer
    private: tuple[str, ...]


class Client:
    """Serves the requests of the given clients, one at a time, with one model for all of one variant.

    Args:
        plan: what both ends agreed on.
        shards: {client: its own shard}; prepared when first needed, then kept.
        prepared: where to keep what was prepared; given by callers that run several experiments on the same shards.
        holds: whether a round that waits for rows stays here, as live objects, until the next request of that client,
            which must then come here; else it is in the client's memory, which takes a copy of everything.
    """

    def __init__(
        self, plan: Plan, shards: Mapping[int, Any], prepared: dict[int, Any] | None = None, holds: bool = False
    ) -> None:
        self._plan = plan
        self._shards = shards
        self._prepared: dict[int, Any] = {} if prepared is None else prepared
        self._models: dict[Hashable, _Model] = {}
        self._courier = Courier(plan)
        self._holds = holds
        self._held: dict[int, Memory] = {}
        self._scored: tuple[Buffer, Arrays] = (b"", {})
        self._asked: tuple[Buffer | None, Message] = (None, Message("error"))
        self._got: tuple[Arrays | None, Arrays, int] = (None, {}, 0)
        self._loaded: Buffer | None = None
        self._told: dict[int, Buffer] = {}
        self._relayed: dict[int, Arrays] = {}
        self.flops = 0
        self.keeps = False
        self._handlers: dict[str, Callable[[int, Message, Memory], Message]] = {
            "hello": self._hello,
            "statistics": self._statistics,
            "probe": self._probe,
            "train": self._train,
            "alone": self._train,
            "rows": self._go_on,
            "relay": self._relay,
            "evaluate": self._evaluate,
            "measure": self._evaluate,
        }

    def serve(
        self, client: int, request: Buffer, memory: Kept, scored: Buffer = b"", told: Buffer = b""
    ) -> tuple[bytes, Kept]:
        """Answer one request; `flops` then tells what it took, and `keeps` whether the request must be kept.

        Args:
            client: who is asked.
            request: an encoded message.
            memory: what the client remembered after its last request, or its bytes; b"" at first.
            scored: an encoded message with the model that a request in `FREE` is about; b"" for any other.
            told: the request of this client that had to be kept, b"" for none; needed once, after its first.

        Returns:
            The encoded reply and the new memory, the very object that was given if nothing changed. Whatever goes wrong
            at the client comes back as a message of kind "error" with the reason, and the memory as it was.
        """
        round, self.keeps = 0, False
        if told and client not in self._prepared:
            self._told[client] = told
        try:
            message = self._opened(request)
            kind, round = message.kind, message.round
            if scored:
                message = replace(message, arrays={**(message.arrays or {}), **self._decoded(scored)})
            if kind not in FREE:
                self._loaded = None
            if kind not in self._handlers:
                raise ClientError(f"no client answers a message of kind {kind!r}")
            held = self._held.pop(client, None)
            remembered = held if held is not None and kind == "rows" else unpacked(memory)
            before = dict(remembered)
            role = f"{kind}-{message.flags}" if kind == "rows" else kind  # a round's segments differ
            with flops.Meter() as meter, self._seeded(role, round, client):
                reply = self._handlers[kind](client, message, remembered)
            self.flops = 0 if kind in FREE else meter.flops
            encoded = wire.encode(reply, self._plan.reply_layouts.get(reply.kind), self._plan.names(reply.kind))
            if reply.kind == "wait" and self._holds:
                self._held[client] = remembered
                return encoded, memory
            return encoded, memory if same(remembered, before) else settled(remembered)
        except Exception as error:  # a client's failure is its reply, whatever it was
            self.flops, self.keeps = 0, False
            text = str(error) if isinstance(error, ClientError) else f"{type(error).__name__}: {error}"
            return wire.encode(Message("error", round, text=text)), memory
        finally:
            if self._plan.task.tables and client in self._prepared and client not in self._held:
                self._plan.task.recall(self._prepared[client], None)  # its memory has them
                if client not in self._relayed:
                    self._plan.task.forget(self._prepared[client])

    def _opened(self, request: Buffer) -> Message:
        """What was asked; where many are asked the same, it is decoded once."""
        if request is not self._asked[0]:
            self._asked = request, wire.decode(request, self._plan.request_layouts, self._plan.told)
        return self._asked[1]

    def _seeded(self, role: str, round: int, client: int) -> AbstractContextManager[None]:
        """Torch's own generators seeded for one request, where the task has any use for them."""
        plan = self._plan
        return (
            randomness.seeded_torch(plan.seed, role, round, client, plan.device) if plan.task.noisy else nullcontext()
        )

    def _decoded(self, scored: Buffer) -> Arrays:
        """The model to be scored, decoded once for all clients that are scored with it."""
        if scored is not self._scored[0]:
            self._scored = scored, wire.decode(scored, self._plan.request_layouts).arrays or {}
            self._loaded = None
        return self._scored[1]

    def holding(self, client: int) -> bool:
        """Whether a round of this client waits here."""
        return client in self._held

    def _hello(self, client: int, message: Message, memory: Memory) -> Message:
        data = self._plan.task.prepare(self._shards[client], {})
        known = {"examples": float(self._plan.task.examples(data)), **self._plan.task.describe(data)}
        report = {name: known[name] for name in self._plan.names("hello")}
        published = self._plan.task.statistics(self._shards[client])
        if published:
            layout, g = (
                self._plan.task.statistics_layout(),
                randomness.generator(self._plan.seed, "rows-hello", 0, client),
            )
            published, _ = self._plan.rows.encode(published, self._plan.rows.init(layout), g)
        return Message("hello", message.round, report, published or None)

    def _statistics(self, client: int, message: Message, memory: Memory) -> Message:
        shared = self._plan.rows.decode(message.arrays or {}, self._plan.task.combined_layout())
        self._prepared[client] = self._plan.task.prepare(self._shards[client], shared)
        self.keeps = True
        return Message("statistics", message.round)

    def _probe(self, client: int, message: Message, memory: Memory) -> Message:
        memory["probed"] = self._received(message, memory)
        data, model = self._load(client, memory["probed"], memory)
        task, module = self._plan.task, model.flat.module.eval()
        blocks = task.blocks(data)
        # A client that trains on some blocks a round is asked about as many: a probe may not cost more than training.
        order = randomness.generator(self._plan.seed, "probe", message.round, client).permutation(len(blocks))
        asked = [blocks[index] for index in order[: self._plan.training.blocks or None]]
        with torch.no_grad():
            parts = [task.loss(module, data, Draw(block), task.encode(module, data, block)) for block in asked]
        losses = torch.cat(parts).double()
        return Message("probe", message.round, {"loss": float(losses.mean()), "loss_sq": float((losses**2).mean())})

    def _train(self, client: int, message: Message, memory: Memory) -> Message:
        received = self._received(message, memory)
        memory.pop("probed", None)
        memory.pop("paused", None)
        data, model = self._load(client, received, memory)
        heard = message.kind == "train" and message.arrays is not None  # who trains alone is sent a model at most
        if heard:
            self._plan.task.hear(data, self._courier.decode(message.arrays or {}))
        going = {
            "kind": message.kind,
            "received": received,
            "told": dict(message.report),
            "heard": heard,
            "rate": self._plan.training.rate(message.flags / PROGRESS_STEPS),
        }
        return self._go(client, message, data, model, going, None, memory)

    def _go_on(self, client: int, message: Message, memory: Memory) -> Message:
        """Take a round up that waits for rows."""
        paused = memory.pop("paused", None)
        if paused is None:
            raise ClientError("sent rows that it does not wait for, or no longer: its process may have ended")
        going = paused["going"]
        if self._holds:  # model and states are as they were put aside
            data = self._prepared[client]
            model = self._model(self._plan.task.variant(data))
        else:
            data, model = self._load(client, going["received"], memory)
        self._plan.task.hear(data, self._courier.decode(message.arrays or {}))
        return self._go(client, message, data, model, going, paused["trainer"], memory)

    def _go(
        self,
        client: int,
        message: Message,
        data: Any,
        model: _Model,
        going: Mapping[str, Any],
        paused: Tree,
        memory: Memory,
    ) -> Message:
        """Train, as far as it goes without rows that must be asked for."""
        plan = self._plan
        sampler_state = memory.get("sampler")
        if sampler_state is None:
            sampler_state = plan.sampler.init(plan.task.examples(data))
        trainer = LocalTrainer(
            task=plan.task,
            sampler=plan.sampler,
            training=plan.training,
            flat=model.flat,
            optimizer=model.optimizer,
            data=data,
            sampler_state=sampler_state,
            generator=partial(randomness.generator, plan.seed, "train", message.round, client),
            learning_rate=going["rate"],
            collects=going["kind"] == "train",
            waits=plan.refreshes > 0 and going["kind"] == "train",
            told=going["told"],
            heard=going["heard"],
            paused=paused,
            fresh=paused is None,
        )
        try:
            upload, memory["sharing"] = plan.sharing.local_update(trainer, going["received"], memory.get("sharing"))
        except Paused as pause:
            memory["sampler"] = trainer.sampler_state
            kept = trainer.park() if self._holds else trainer.pause()
            memory["paused"] = {"going": dict(going), "trainer": kept}
            asked = asked_arrays(pause.asked, plan.asked_layout)
            return Message("wait", message.round, arrays={**self._tell(client, message, data, memory), **asked})
        memory["sampler"] = trainer.sampler_state
        if model.private:
            memory["private"] = model.flat.read(model.private)
        for name, array in upload.items():
            if not finite(array):
                raise ClientError(f"training diverged: {name} is not finite")
        report = trainer.report()
        known = {name: report[name] for name in plan.names("train")}
        if not trainer.collects:
            self._keep_states(data, memory)
            return Message("alone", message.round, known)
        uplink_state = memory.get("uplink")
        if uplink_state is None:
            uplink_state = plan.uplink.init(plan.upload_layout)
        g = randomness.generator_where(plan.uplink.chancy, plan.seed, "uplink", message.round, client)
        encoded, memory["uplink"] = plan.uplink.encode(upload, uplink_state, g)
        return Message("train", message.round, known, {**encoded, **self._tell(client, message, data, memory)})

    def _tell(self, client: int, message: Message, data: Any, memory: Memory) -> Arrays:
        """Rows that others need and that changed since they were last told."""
        plan = self._plan
        segment = message.flags + 1 if message.kind == "rows" else 0
        if not plan.task.tables:
            return {}
        told = plan.task.tell(data)
        if not (self._holds and "paused" in memory):
            self._keep_states(data, memory)
        return self._courier.encode(told, randomness.generator(plan.seed, f"rows-{segment}", message.round, client))

    def _keep_states(self, data: Any, memory: Memory) -> None:
        if self._plan.task.tables:
            memory["states"] = self._plan.task.remember(data)

    def _relay(self, client: int, message: Message, memory: Memory) -> Message:
        """States of one more layer under a model that is scored; `flags` says of which."""
        data, model = self._load_free(client, message, memory)
        mail = self._plan.task.relay(model.flat.module.eval(), data, message.flags)
        self._relayed[client] = self._scored[1]
        return Message("relay", message.round, arrays=self._courier.raw(mail))

    def _load_free(self, client: int, message: Message, memory: Memory) -> tuple[Any, _Model]:
        """As `_load`, for a request of the experimenter, with other clients' states as they are in it."""
        arrays = message.arrays or {}
        received, free = part_of(arrays, self._plan.model_layout), {**memory, "states": None}
        data, model = self._load(client, received, free, self._scored[1])
        if not self._plan.personal:  # one model for all: it stays loaded for the next client
            self._loaded = self._scored[0]
        if self._plan.task.tables:
            self._plan.task.hear(data, self._courier.read(arrays))
        return data, model

    def _evaluate(self, client: int, message: Message, memory: Memory) -> Message:
        plan = self._plan
        arrays = message.arrays or {}
        if message.kind == "evaluate" and plan.sharing.holds:
            arrays = self._received(message, memory)
        elif message.kind == "evaluate":
            arrays = self._plan.downlink.decode(arrays, self._plan.model_layout)
        if message.kind == "measure":
            data, model = self._load_free(client, message, memory)
            arrays = part_of(arrays, plan.model_layout)
        else:
            data, model = self._load(client, arrays, memory)
        others = plan.sharing.others(arrays, memory.get("sharing"))
        if others:  # relayed states are those of the model alone
            plan.task.forget(data)
        with torch.no_grad():
            sums = plan.task.evaluate(answering(plan.task, model.flat, others), data)
        if plan.personal and plan.keep_best:
            sums = self._keep_best(model, others, sums, memory)
        reply = {split: np.array([sums[split][name] for name in plan.task.sums], np.float64) for split in SPLITS}
        return Message(message.kind, message.round, {}, reply)

    def _received(self, message: Message, memory: Memory) -> Arrays:
        """The shared parameters that a request brought, or those of this round's probe."""
        if message.arrays is not None:
            if message.arrays is not self._got[0]:  # where many are asked the same, it is decoded once for all
                coded = part_of(message.arrays, self._plan.request_layouts["probe"])
                with flops.Meter() as meter:
                    decoded = self._plan.downlink.decode(coded, self._plan.download_layout)
                self._got = message.arrays, decoded, meter.flops
            received = self._got[1]
            flops.count(self._got[2] // 2)  # but each would have done so
            if self._plan.sharing.holds:
                memory["held"] = received
            return received
        if self._plan.sharing.holds:
            held: Arrays = memory.get("held", self._plan.first)
            return held
        if "probed" not in memory:
            raise ClientError(f"asked to {message.kind} without a model")
        probed: Arrays = memory["probed"]
        return probed

    def _load(self, client: int, received: Arrays, memory: Memory, scored: Arrays | None = None) -> tuple[Any, _Model]:
        """The client's prepared data, and its model as the client itself uses it.

        What the data keep of relays stays only for the model that is `scored` with them: each scoring has its own.
        """
        plan = self._plan
        if client not in self._prepared:
            told = self._told.get(client, b"")
            self._prepared[client] = plan.task.prepare(self._shards[client], told_in(plan, told))
            self._told.pop(client, None)
        data = self._prepared[client]
        if plan.task.tables:
            plan.task.recall(data, memory.get("states"))
            if self._relayed.pop(client, None) is not scored or scored is None:
                plan.task.forget(data)
        model = self._model(plan.task.variant(data))
        own = plan.sharing.personalise(received, memory.get("sharing"))
        private = memory.get("private") or {name: model.flat.initial[name] for name in model.private}
        if self._loaded is None or self._loaded is not self._scored[0]:
            model.flat.load({**private, **{name: own[name] for name in plan.first}})
        return data, model

    def _model(self, variant: Hashable) -> _Model:
        if variant not in self._models:
            flat = self._plan.build_model(variant)
            private = tuple(name for name in flat.initial if not self._plan.travels(name))
            self._models[variant] = _Model(flat, Optimizer(self._plan.training, flat), private)
        return self._models[variant]

    def _keep_best(
        self, model: _Model, others: Sequence[Arrays], sums: dict[str, Sums], memory: Memory
    ) -> dict[str, Sums]:
        """The sums of the best model so far by the client's own validation split, after noting whether it is this."""
        task, best = self._plan.task, memory.get("best")
        choice = task.choice(sums["validation"])
        if best is None or math.isnan(choice) or improves(choice, best["choice"], task.better):
            best = {"choice": choice, "sums": sums, "arrays": model.flat.read(), "others": list(others)}
            memory["best"] = best
        kept: dict[str, Sums] = best["sums"]
        return kept


def told_in(plan: Plan, told: Buffer) -> Arrays:
    """What a client was told before training, from the request that it kept; nothing from none."""
    if not told:
        return {}
    message = wire.decode(told, plan.request_layouts)
    with flops.Meter():  # whose operations were counted when it was told
        return plan.rows.decode(message.arrays or {}, plan.task.combined_layout())
