"""Methods that remember, methods that misbehave: for tests of the engine, named "helpers.toy_methods:Class"."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fedgraft.contracts import Batch, Codec, Probe, ProbingSelector, Sampler, Selection, Selector, Sharing
from fedgraft.contracts.abilities.tasks import PublishingTask
from fedgraft.wire.layouts import VARIABLE, Layout, Spec
from helpers.toy import Line, Lines


@dataclass(frozen=True)
class Without(Selector[None]):
    """Everybody who can be afforded but one client."""

    client: int = 2

    def init(self, view):
        return None

    def select(self, state, view, g):
        chosen = [client for client in range(view.clients) if view.available[client] and client != self.client]
        if view.bytes_left is not None:
            chosen = chosen[: view.bytes_left // int(view.bytes_per_client[0])]
        return Selection(tuple(chosen))


@dataclass(frozen=True)
class Scripted(ProbingSelector[dict]):
    """The given cohorts, one a round; and whom to probe before each, by so many epochs of training if any are told."""

    cohorts: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...] | None = None
    probed: tuple[int, ...] = ()
    tried: int = 0
    reports: ClassVar[frozenset[str]] = frozenset({"loss", "loss_sq", "update"})

    def init(self, view):
        return {"learnt": []}

    def probe(self, state, view, g):
        if not self.probed:
            return None
        return Probe(self.probed, "train", self.tried) if self.tried else Probe(self.probed)

    def select(self, state, view, g):
        return Selection(self.cohorts[view.round - 1], self.weights)

    def update(self, state, view, outcome):
        told = {
            "probed": {str(client): dict(answer) for client, answer in view.probed.items()},
            "reports": {str(client): dict(report) for client, report in outcome.reports.items()},
            "failed": sorted(outcome.failed),
            "score": outcome.score,
            "bytes": outcome.bytes,
            "updates": {str(client): arrays for client, arrays in outcome.updates.items()},
        }
        return {"learnt": [*state["learnt"], told]}


@dataclass(frozen=True)
class Feedback(Codec[dict]):
    """Multiples of 1/8, what is lost added to the next message."""

    def init(self, layout):
        return {"lost": {spec.name: np.zeros(spec.shape, np.float32) for spec in layout}}

    def encoded(self, layout):
        return layout

    def encode(self, arrays, state, g):
        wanted = {name: value + state["lost"][name] for name, value in arrays.items()}
        sent = {
            name: (np.floor(value * 8 + g.random(value.shape)) / 8).astype(np.float32) for name, value in wanted.items()
        }
        return sent, {"lost": {name: wanted[name] - sent[name] for name in sent}}

    def decode(self, arrays, layout):
        return dict(arrays)


@dataclass(frozen=True)
class Hard(Sampler[dict]):
    """The half of the examples whose losses were largest, of all in the first pass."""

    def init(self, examples):
        return {"losses": np.full(examples, np.inf, np.float32)}

    def draw(self, state, block, stage, g):
        return [Batch(np.sort(block[np.argsort(-state["losses"][block], kind="stable")][: (len(block) + 1) // 2]))]

    def update(self, state, draw, losses):
        known = state["losses"].copy()
        known[draw.examples] = losses
        return {"losses": known}


@dataclass(frozen=True)
class Momentum(Sharing[dict]):
    """Clients remember their last update and keep the bias to themselves; the server has momentum."""

    def shares(self, name):
        return name != "bias"

    def init(self, model, clients):
        return {"model": model, "speed": {name: np.zeros_like(value) for name, value in model.items()}}

    def model(self, state, group=0):
        return state["model"]

    def local_update(self, trainer, received, memory):
        update, _ = super().local_update(trainer, received, None)
        last = memory["last"] if memory else update
        mixed = {name: (value + last[name]) / np.float32(2) for name, value in update.items()}
        return mixed, {"last": update, "rounds": (memory["rounds"] if memory else 0) + 1}

    def merge(self, state, updates):
        speed = {
            name: (0.5 * old + sum(update.weight * update.arrays[name] for update in updates)).astype(np.float32)
            for name, old in state["speed"].items()
        }
        return {"model": {name: value + speed[name] for name, value in state["model"].items()}, "speed": speed}


@dataclass(frozen=True)
class Published(Line, PublishingTask):
    """The line, its targets centred on the mean of all clients; every client publishes count and sum."""

    varying: bool = False

    @property
    def statistics_layout(self):
        return Layout((Spec("sums", "float64", (2,)), *((Spec("more", "uint8", (VARIABLE,)),) if self.varying else ())))

    def statistics(self, shard):
        own = shard.y[shard.split == 0].astype(np.float64)
        more = {"more": np.zeros(len(shard.y), np.uint8)} if self.varying else {}
        return {"sums": np.array([len(own), own.sum()]), **more}

    @property
    def combined_layout(self):
        return Layout((Spec("mean", "float64", (1,)),))

    def check(self, statistics):
        """Anything may be published."""

    def combine(self, statistics):
        count, total = sum(arrays["sums"] for arrays in statistics.values())
        return {client: {"mean": np.array([total / count])} for client in statistics}

    def prepare(self, shard, shared):
        mean = shared["mean"][0] if shared else 0.0
        return type(shard)(shard.x, (shard.y - mean).astype(np.float32), shard.split)


@dataclass(frozen=True)
class Counted(Lines):
    """Lines for the task whose clients publish."""

    task: ClassVar[str] = "helpers.toy_methods:Published"


@dataclass(frozen=True)
class Dropout(Line):
    """The line under dropout, which draws from torch's own generator."""

    def loss(self, model, data, draw, encoded):
        return torch.nn.functional.dropout(super().loss(model, data, draw, encoded), 0.3)


@dataclass(frozen=True)
class Wet(Lines):
    """Lines for the task under dropout."""

    task: ClassVar[str] = "helpers.toy_methods:Dropout"
