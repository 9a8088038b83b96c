"""FedTAD: FedAvg, and a server that distils into the global model what each client is reliable in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Self, TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.nn import functional

from fedgraft.contracts import (
    GraphNetwork,
    Indices,
    LocalGraph,
    MovableSharing,
    Trainer,
    Update,
)
from fedgraft.contracts.abilities.graphs import GraphNetworkTask, LocalGraphTask
from fedgraft.contracts.facts import TaskFacts
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from fedgraft.errors import require
from fedgraft.methods.one_model import moved
from fedgraft.methods.rl import networks
from fedgraft.methods.rl.networks import Moments
from fedgraft.nn import flops
from fedgraft.wire.layouts import Arrays, Layout, Spec, Tree

Floats = NDArray[np.float64]

RELIABILITY = "knowledge.reliability"
"""Name of what is sent up beside the update."""
LARGEST = 60.0
"""Most that counts of a logarithm, so that no number is too large; ours."""
NOISE = 32
"""Numbers that a node is made of, beside its class (code)."""
LAYERS = (64, 128, 256)
"""Widths of the generator's hidden layers (code)."""
CLASSES = "classes"
"""Name of the generator's embeddings of classes; its layers are "0.weight", "0.bias" ..."""


class State(TypedDict):
    """State at the server.

    model: the global model; reliability: float32 [N, classes], log(1 + Phi) of each client; generator: its parameters,
    {} before they are drawn; generator_moments, model_moments: Adam's of either.
    """

    model: Arrays
    reliability: NDArray[np.float32]
    generator: Arrays
    generator_moments: Moments
    model_moments: Moments


@dataclass(frozen=True, eq=False)
class Lesson:
    """What the server distils from, in a round.

    Args:
        network: the task's.
        teachers: parameters of the local models.
        weights: float32 [teachers, nodes], what each counts on each node that is made; sums to 1 in each class.
        label: int64 [nodes], the classes for which nodes are made.
    """

    network: GraphNetwork
    teachers: Sequence[dict[str, Tensor]]
    weights: Tensor
    label: Tensor


@dataclass(frozen=True)
class FedTAD(MovableSharing[State]):
    """FedTAD: FedAvg, and a server that distils into the global model what each client is reliable in.

    A client tells beside its update, for each class c, how far it can be trusted there,

        Phi_c = sum over training nodes v of class c of (1 + sum_u cos(h_v, h_u)) / (1 + d_v),

    u being its d_v neighbours, h features and, for k = 1 .. `walk`, the probabilities that a random walk of k steps
    returns. The server takes the mean of models, and then `epochs` times: it draws noise; a generator makes of it
    `nodes` nodes of given classes, which are joined to those of the most alike features; it learns by a step down

        sum_c Phi_c (semantics CE(local, c) - mean |global - local|) + diversity exp(-mean |z - z'|^2 |x - x'|)

    summed over clients, logits being meant; and the global model takes `steps` down sum_c Phi_c mean |global - local|.
    Phi_c are shares: of each class they sum to 1 over the clients that answered.

    Source: Zhu et al., "FedTAD: Topology-aware Data-free Knowledge Distillation for Subgraph Federated Learning", IJCAI
        2024; the authors' code (zyl24/FedTAD; read, not copied).
    Differs: clients send differences to the model they received, and log(1 + Phi) with each, which few bits and a limit
        on the size of updates leave alone. Walks count by their probabilities; in the code h has the numbers of the
        nodes that drawn walks meet, so that cosines hang by how nodes are numbered. The global model is distilled
        without dropout. Of a late answer the local model is today's global one plus its update.

    Args:
        epochs: of distillation a round, >= 0; 5 (code). 0 is FedAvg.
        generations: steps of the generator in each, >= 0; 1 (code).
        steps: of the global model in each, >= 0; 5 (code).
        nodes: that are made, >= 1 for each class; 100 (code).
        neighbours: most alike nodes to which each is joined, itself among them, >= 1; 5 (code).
        generator_rate: of Adam, > 0; 0.001 (code).
        rate: of Adam on the global model, > 0; 0.001 (code).
        decay: of L2 penalties of both, >= 0; 0.0005 (code).
        semantics: weight of cross-entropies, lambda 1, >= 0; 1 (code).
        diversity: weight of that term, lambda 2, >= 0; 1 (code).
        walk: longest random walk, >= 1; 5 (code).
        classes: the task's; no option.

    State: see `State`.
    Memory: reliability: float32 [classes], log(1 + Phi), as it was told first.
    Needs: a task that shows clients' parts of a graph and runs its model on others: `node`.
    Cost: the model down and its difference up, per selected client, as in FedAvg, and a number for each class up. At
        the server epochs x (generations + 1) passes of each client's model over `nodes` nodes, and as many models.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (LocalGraphTask, GraphNetworkTask)

    epochs: NonNegativeInt = 5
    generations: NonNegativeInt = 1
    steps: NonNegativeInt = 5
    nodes: PositiveInt = 100
    neighbours: PositiveInt = 5
    generator_rate: PositiveFloat = 1e-3
    rate: PositiveFloat = 1e-3
    decay: NonNegativeFloat = 5e-4
    semantics: NonNegativeFloat = 1.0
    diversity: NonNegativeFloat = 1.0
    walk: PositiveInt = 5
    classes: int = field(default=0, init=False)

    def fitted(self, facts: TaskFacts) -> Self:
        """For so many classes of nodes."""
        classes = facts.node_classes
        require(self.nodes >= classes, "FedTAD.nodes", f">= {classes}, the number of classes", self.nodes)
        fitted = replace(self)
        object.__setattr__(fitted, "classes", classes)
        return fitted

    def init(self, model: Arrays, clients: int) -> State:
        """Start from the drawn model; nobody is reliable yet."""
        nobody = np.zeros((clients, self.classes), np.float32)
        return {"model": model, "reliability": nobody, "generator": {}, "generator_moments": {}, "model_moments": {}}

    def model(self, state: State, group: int = 0) -> Arrays:
        """Return the global model."""
        return state["model"]

    def uploads(self, model: Layout) -> Layout:
        """Return the model and a number for each class."""
        return Layout((*model.specs, Spec(RELIABILITY, "float32", (self.classes,), "class_counts")))

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Train as in FedAvg; in the first round, find out in which classes the client is reliable."""
        trainer.load(received)
        trainer.run()
        if isinstance(memory, dict):
            told = cast(NDArray[np.float32], memory["reliability"])
        else:
            told = np.log1p(reliability(trainer.local_graph(), self.walk)).astype(np.float32)
        return {**trainer.difference(received), RELIABILITY: told}, {"reliability": told}

    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """Take the mean of updates; note who is reliable in what."""
        told = state["reliability"].copy()
        for update in updates:
            told[update.client] = update.arrays[RELIABILITY]
        return {**state, "model": moved(state["model"], updates), "reliability": told}

    def with_model(self, state: State, group: int, model: Arrays) -> State:
        """Put a model in place of the global one."""
        return {**state, "model": model}

    def refined(
        self, before: State, merged: State, updates: Sequence[Update], network: GraphNetwork, g: np.random.Generator
    ) -> State:
        """Train the generator and the global model in turn."""
        if not self.epochs:
            return merged
        state = merged if merged["generator"] else {**merged, "generator": self._first(network, g)}
        lesson = self._lesson(before["model"], self._shares(state, updates), updates, network)
        with networks.one_thread():
            for _ in range(self.epochs):
                noise = torch.randn(self.nodes, NOISE, generator=networks.seeded(g))
                for _ in range(self.generations):
                    state = self._generated(state, lesson, noise)
                state = self._distilled(state, lesson, noise)
        return state

    def _lesson(self, sent: Arrays, shares: Tensor, updates: Sequence[Update], network: GraphNetwork) -> "Lesson":
        """Return what is the same in all epochs, given the model that was sent and `shares` [updates, classes]."""
        label = torch.arange(self.nodes).div(self.nodes // self.classes, rounding_mode="floor")
        label = label.clamp(max=self.classes - 1)
        trained = [{name: sent[name] + update.arrays[name] for name in sent} for update in updates]
        weights = shares[:, label] / torch.bincount(label)[label]
        return Lesson(network, [networks.tensors(arrays) for arrays in trained], weights, label)

    def _generated(self, state: State, lesson: "Lesson", noise: Tensor) -> State:
        """A step of the generator."""
        generator = networks.tensors(state["generator"], learns=True)
        features = made(generator, noise, lesson.label)
        edges = joined(features, self.neighbours)
        told = lesson.network.logits(networks.tensors(state["model"]), features, edges)
        loss = self.diversity * len(lesson.teachers) * alikeness(noise, features)
        for teacher, weight in zip(lesson.teachers, lesson.weights, strict=True):
            local = lesson.network.logits(teacher, features, edges)
            wrong = functional.cross_entropy(local, lesson.label, reduction="none")
            apart = (told - local.detach()).abs().mean(1)
            loss = loss + (weight * (self.semantics * wrong - apart)).sum()
        after, moments = networks.moved(generator, loss, state["generator_moments"], self.generator_rate, self.decay)
        return {**state, "generator": after, "generator_moments": moments}

    def _distilled(self, state: State, lesson: "Lesson", noise: Tensor) -> State:
        """Steps of the global model, on one graph."""
        network = lesson.network
        with torch.no_grad():
            features = made(networks.tensors(state["generator"]), noise, lesson.label)
            edges = joined(features, self.neighbours)
            told = torch.stack([network.logits(teacher, features, edges) for teacher in lesson.teachers])
        model, moments = state["model"], state["model_moments"]
        for _ in range(self.steps):
            learning = networks.tensors({name: model[name] for name in model if name in network.learnt}, learns=True)
            logits = network.logits({**networks.tensors(model), **learning}, features, edges)
            loss = (lesson.weights * (logits - told).abs().mean(2)).sum()
            after, moments = networks.moved(learning, loss, moments, self.rate, self.decay)
            model = {**model, **after}
        return {**state, "model": model, "model_moments": moments}

    def _first(self, network: GraphNetwork, g: np.random.Generator) -> Arrays:
        """A drawn generator."""
        drawn = networks.seeded(g)
        widths = [self.classes + NOISE, *LAYERS, network.width]
        embeddings = torch.randn(self.classes, self.classes, generator=drawn).numpy()
        return {CLASSES: embeddings, **networks.drawn(list(pairwise(widths)), drawn)}

    def _shares(self, state: State, updates: Sequence[Update]) -> Tensor:
        """How reliable those that answered are in each class, [updates, classes]; sums to 1, or 0 where nobody is."""
        told = state["reliability"][[update.client for update in updates]].astype(np.float64)
        sure = np.expm1(np.clip(told, 0, LARGEST))
        total = sure.sum(0)
        return torch.from_numpy(np.divide(sure, total, out=np.zeros_like(sure), where=total > 0).astype(np.float32))


def made(generator: dict[str, Tensor], noise: Tensor, label: Tensor) -> Tensor:
    """Return what a generator makes of noise [nodes, NOISE] for classes [nodes]: features, float32 [nodes, width]."""
    inputs = torch.cat([generator[CLASSES][label], noise], 1)
    for k in range(len(LAYERS)):
        inputs = torch.tanh(networks.layer(generator, k, inputs))
    return networks.layer(generator, len(LAYERS), inputs)


def joined(features: Tensor, most: int) -> Indices:
    """Return which nodes are joined, int64 [2, edges]: each with its `most` nearest by cosine, itself among them."""
    units = functional.normalize(features.detach())
    near = (units @ units.T).topk(min(most, len(units))).indices
    pairs = torch.zeros(len(units), len(units), dtype=torch.bool).scatter_(1, near, True)
    pairs |= pairs.T.clone()
    return np.asarray(pairs.fill_diagonal_(False).nonzero().T.contiguous().numpy())


def alikeness(noise: Tensor, features: Tensor) -> Tensor:
    """Return exp(-mean over pairs of |z - z'|^2 |x - x'|), means over numbers: 1 where all nodes are the same."""
    apart = torch.cdist(noise, noise).square() / noise.shape[1]
    return torch.exp(-(apart * torch.cdist(features, features, p=1.0) / features.shape[1]).mean())


def reliability(graph: LocalGraph, walk: int) -> Floats:
    """Return Phi, float64 [classes], >= 0."""
    nodes, classes = graph.probabilities.shape
    sender, receiver = graph.edges[:, np.isin(graph.edges[1], graph.examples)]
    returns = np.stack([*_returns(graph.edges, nodes, walk)], 1)
    products = _inner(graph.features, sender, receiver) + (returns[sender] * returns[receiver]).sum(1)
    everybody = np.arange(nodes)
    norms = np.sqrt(_inner(graph.features, everybody, everybody) + np.square(returns).sum(1))
    lengths = norms[sender] * norms[receiver]
    cosines = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    alike, degree = (np.bincount(receiver, each, nodes) for each in (cosines, np.ones(len(receiver))))
    trust = ((1 + alike) / (1 + degree))[graph.examples]
    return np.bincount(graph.label, trust, classes).astype(np.float64)


def _returns(edges: Indices, nodes: int, walk: int) -> Iterator[Floats]:
    """Probabilities that a random walk is back behind 1 .. `walk` steps, float64 [nodes] each."""
    sender, receiver = edges
    degree = np.bincount(receiver, minlength=nodes)
    step = sparse.csr_matrix((1 / degree[receiver], (receiver, sender)), shape=(nodes, nodes))
    powers = [step]
    for length in range(1, walk + 1):
        half = (length + 1) // 2
        if half > len(powers):
            powers.append(powers[-1] @ step)
        back = step.diagonal() if length == 1 else powers[half - 1].multiply(powers[length - half - 1].T).sum(1)
        flops.count(powers[half - 1].nnz)
        yield np.asarray(back, np.float64).ravel()


def _inner(features: Any, one: Indices, other: Indices) -> Floats:
    """Inner products of features of pairs of nodes, float64 [pairs]."""
    left, right = features[one], features[other]
    products = left * right if isinstance(left, np.ndarray) else left.multiply(right)
    return np.asarray(products.sum(1), np.float64).ravel()
