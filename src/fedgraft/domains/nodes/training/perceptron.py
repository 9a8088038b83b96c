"""A perceptron over all nodes in one place, by their features alone: what baselines begin with."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Final, TypeAlias

import numpy as np
from annotated_types import MinLen
from numpy.typing import NDArray
from scipy.special import expit

from fedgraft.contracts.labels import Labels
from fedgraft.contracts.ranges import Checked, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from fedgraft.domains.examples import Features, scaled
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.nodes.base.shards import NodeShard, judges

Floats: TypeAlias = NDArray[Any]
Rows: TypeAlias = tuple[Features, Features, NDArray[np.bool_]]
"""Features [n, f], the same transposed, and which class each node is of, [n, outputs]."""
BETAS: Final = (0.9, 0.999)
"""Of Adam: decay of the means of gradients, and of their squares."""
EPSILON: Final = 1e-8
"""Of Adam."""


ACCURACY: Final = Classes()
"""What is tuned for by default."""


def rated(labels: Labels, shares: NDArray[Any], wanted: NDArray[np.int64]) -> float:
    """Return how good answers [n, classes] are, more is better; right ones are counted where that is the metric."""
    if labels.metric == "accuracy":
        return float((shares.argmax(axis=1) == wanted).sum())
    return labels.agreement(shares, wanted) * (-1 if labels.better == "lower" else 1)


def widened(shares: NDArray[Any], classes: NDArray[np.int64], count: int) -> NDArray[Any]:
    """Return answers for all classes, [n, count], of those for some of them; the others have 0."""
    if len(classes) == count:
        return shares
    every = np.zeros((len(shares), count), shares.dtype)
    every[:, classes] = shares
    return every


@dataclass(frozen=True)
class Perceptron(Checked):
    """The bits of scikit-learn's `MLPClassifier`, its penalty and its epochs tuned on validation nodes.

    Every epoch but the first draws the same batches, as `partial_fit` does with a seed: they are cut once. `hidden` are
    widths of the hidden layers; none is logistic regression. `alphas` are a grid of the penalty of squared weights;
    rows of features are scaled to `length`. A fit ends after `epochs`, or `patience` epochs without a better validation
    score. Adam takes `batch_size` nodes per step; all training nodes where they are fewer.
    """

    hidden: tuple[PositiveInt, ...] = (128,)
    alphas: Annotated[tuple[NonNegativeFloat, ...], MinLen(1)] = (0.01, 0.1, 1.0)
    length: PositiveFloat = 4.0
    epochs: PositiveInt = 60
    patience: PositiveInt = 10
    batch_size: PositiveInt = 256
    learning_rate: PositiveFloat = 0.001
    seed: NonNegativeInt = 0

    def probabilities(self, graph: NodeShard, labels: Labels = ACCURACY) -> NDArray[np.float64]:
        """Return those of every node, [nodes, classes]; of equally good settings by their metric the first."""
        train, chosen_on = graph.rows("train"), judges(graph)
        classes, places = np.unique(graph.label[train], return_inverse=True)
        wanted = graph.label[chosen_on]
        best = np.zeros((graph.own, len(graph.classes)))
        if len(classes) == 1:
            best[:, classes[0]] = 1
            return best
        features = scaled(graph.features, self.length) if graph.scale_rows else graph.features
        inputs, judged = features[train], features[chosen_on]
        # Of two classes one output tells the second.
        target = (places == 1)[:, None] if len(classes) == 2 else np.arange(len(classes)) == places[:, None]
        g = np.random.RandomState(self.seed)
        drawn = _drawn((inputs.shape[1], *self.hidden, target.shape[1]), inputs.dtype, g)
        first, others = (self._batches(inputs, target, each) for each in (g, np.random.RandomState(self.seed)))
        chosen, most_right = _Network(drawn, 0.0, self.learning_rate), -np.inf
        for alpha in self.alphas:
            model = _Network(drawn, alpha, self.learning_rate)
            own_most, best_epoch = -np.inf, 0
            for epoch in range(self.epochs):
                for batch in others if epoch else first:
                    model.step(*batch)
                right = rated(labels, widened(model.probabilities(judged), classes, len(graph.classes)), wanted)
                if right > own_most:
                    own_most, best_epoch = right, epoch
                if right > most_right:
                    chosen, most_right = _Network(model.layers, alpha, self.learning_rate), right
                if epoch - best_epoch >= self.patience:
                    break
        best[:, classes] = chosen.probabilities(features)
        return best

    def _batches(self, inputs: Features, target: NDArray[np.bool_], g: np.random.RandomState) -> list[Rows]:
        """Training nodes in a drawn order, cut into batches."""
        order = np.arange(len(target))
        g.shuffle(order)
        size = min(self.batch_size, len(target))
        parts = [order[start : start + size] for start in range(0, len(order), size)]
        return [(rows := inputs[part], rows.T, target[part]) for part in parts]


def _drawn(widths: Sequence[int], dtype: Any, g: np.random.RandomState) -> list[tuple[Floats, Floats]]:
    """Weights and biases of each layer, uniform as Glorot and Bengio have it (AISTATS 2010)."""
    layers = []
    for inputs, outputs in pairwise(widths):
        bound = np.sqrt(6.0 / (inputs + outputs))
        weights, biases = g.uniform(-bound, bound, (inputs, outputs)), g.uniform(-bound, bound, outputs)
        layers.append((weights.astype(dtype), biases.astype(dtype)))
    return layers


class _Network:
    """Layers with rectified units between them, trained by Adam; a softmax at the end, or one output of two classes.

    `layers` are weights and biases to begin with; `alpha` is the penalty of squared weights.
    """

    def __init__(self, layers: Sequence[tuple[Floats, Floats]], alpha: float, learning_rate: float) -> None:
        self._weights = [weights.copy() for weights, _ in layers]
        self._biases = [biases.copy() for _, biases in layers]
        self._alpha, self._learning_rate, self._steps = alpha, learning_rate, 0
        self._moments = [_Moments(each) for each in (*self._weights, *self._biases)]

    @property
    def layers(self) -> list[tuple[Floats, Floats]]:
        """Weights [inputs, outputs] and biases [outputs] of each layer, as they are now."""
        return [*zip(self._weights, self._biases, strict=True)]

    def probabilities(self, features: Features) -> Floats:
        """Return those of each class, [n, classes]."""
        last = self._forward(features)[-1]
        return np.vstack([1 - last[:, 0], last[:, 0]]).T if last.shape[1] == 1 else last

    def step(self, features: Features, transposed: Features, target: NDArray[np.bool_]) -> None:
        """Take a step of Adam on the mean cross entropy of a batch."""
        states, slopes = self._forward(features), []
        back = states[-1] - target
        for layer in reversed(range(len(self._weights))):
            slope = (states[layer].T if layer else transposed) @ back
            slope += self._alpha * self._weights[layer]
            slope /= len(target)
            slopes.append((slope, np.mean(back, axis=0)))
            if layer:
                back = back @ self._weights[layer].T
                back[states[layer] == 0] = 0
        self._steps += 1
        rate = self._learning_rate * np.sqrt(1 - BETAS[1] ** self._steps) / (1 - BETAS[0] ** self._steps)
        weights, biases = zip(*reversed(slopes), strict=True)
        for moments, slope in zip(self._moments, (*weights, *biases), strict=True):
            moments.step(slope, rate)

    def _forward(self, features: Features) -> list[Any]:
        """What goes into each layer, and what comes out of the last."""
        states: list[Any] = [features]
        for weights, biases in zip(self._weights, self._biases, strict=True):
            state = states[-1] @ weights
            state += biases
            states.append(state)
            if len(states) <= len(self._weights):
                np.maximum(state, 0, out=state)
        if state.shape[1] == 1:
            expit(state, out=state)
        else:
            np.exp(state - state.max(axis=1)[:, None], out=state)
            state /= state.sum(axis=1)[:, None]
        return states


class _Moments:
    """Adam's means of the gradients of some parameters and of their squares; the parameters are changed in place."""

    def __init__(self, parameters: Floats) -> None:
        self._parameters = parameters
        self._mean, self._square, self._room = (np.zeros_like(parameters) for _ in range(3))
        self._change = np.zeros(parameters.shape)

    def step(self, slope: Floats, rate: np.float64) -> None:
        """Take a step against a gradient, which is overwritten."""
        self._mean *= BETAS[0]
        np.multiply(slope, 1 - BETAS[0], out=self._room)
        self._mean += self._room
        self._square *= BETAS[1]
        np.square(slope, out=slope)
        slope *= 1 - BETAS[1]
        self._square += slope
        np.sqrt(self._square, out=self._room)
        self._room += EPSILON
        np.multiply(self._mean, -rate, out=self._change)
        self._change /= self._room
        self._parameters += self._change
