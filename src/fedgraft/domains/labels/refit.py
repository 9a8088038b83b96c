"""A linear layer behind what is known after all hops, fitted in closed form to sums over all clients' examples.

With F_k = M^k [P, H] what is known after k hops, of the model's probabilities P and perhaps its last hidden layer H, it
reads Z = [F_0, F_1 .. F_K] and tells classes. Clients send Z^T Z and Z^T Y over their training examples, once.

Source: Frasca et al., "SIGN", 2020, for a model of all hops side by side; Hoerl and Kennard, "Ridge Regression",
    Technometrics 1970.
Differs: SIGN reads raw features after so many hops; here it is what a trained model makes of them, a few numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.closed_form import packed, ridge, unpacked
from fedgraft.wire.layouts import Array, Arrays, Layout, Spec

Singles = NDArray[np.float32]

SHARPNESS: Final = 5.0
"""Factor of outputs, which are near 0 and 1, before their softmax is taken; that of the sharing method `ridge`."""
STEPS: Final = 32_767
"""Steps from 0 to the largest that a product of two columns can be, by Cauchy and Schwarz: two bytes a product."""
TINY: Final = 1e-30
CROSS, DIAGONAL, GRAM, SQUARES, WEIGHT, BIAS = "cross", "diagonal", "gram", "squares", "weight", "bias"


@dataclass(frozen=True)
class Refit:
    """The layer: so many `columns` to so many `classes`."""

    columns: int
    classes: int

    @property
    def sums_layout(self) -> Layout:
        """Products of columns with each other, the diagonal apart, and with classes; a column of ones is the last."""
        columns, classes = self.columns + 1, self.classes
        return Layout(
            (
                Spec(CROSS, "float32", (columns, classes), "sums"),
                Spec(DIAGONAL, "float32", (columns,), "sums"),
                Spec(GRAM, "int16", (columns * (columns - 1) // 2,), "sums"),
                Spec(SQUARES, "float32", (classes,), "sums"),
            )
        )

    @property
    def layer_layout(self) -> Layout:
        """Its weights [classes, columns] and biases [classes]."""
        specs = Spec(BIAS, "float32", (self.classes,)), Spec(WEIGHT, "float32", (self.classes, self.columns))
        return Layout(specs)

    def sums(self, rows: Singles, label: Indices) -> Arrays:
        """Return the sums over examples, [n, columns] and their classes; of fewer than two examples they are 0."""
        inputs = np.concatenate([rows, np.ones((len(rows), 1), np.float32)], axis=1).astype(np.float64)
        if len(rows) < 2:  # the sums of one example are the example
            inputs, label = inputs[:0], label[:0]
        targets = np.eye(self.classes)[label]
        diagonal, above = packed(inputs.T @ inputs)
        sums = {CROSS: inputs.T @ targets, DIAGONAL: diagonal, SQUARES: targets.sum(axis=0)}
        coded = np.rint(STEPS * above / np.maximum(_most(diagonal), TINY)).astype(np.int16)
        return {**{name: array.astype(np.float32) for name, array in sums.items()}, GRAM: coded}

    def layer(self, sums: Sequence[Arrays]) -> Arrays:
        """Return the layer of least squares over all examples, with a penalty by generalised cross-validation."""
        read = [{**each, GRAM: each[GRAM] * (_most(each[DIAGONAL]) / STEPS)} for each in sums]
        names = [spec.name for spec in self.sums_layout]
        total = {name: sum((each[name].astype(np.float64) for each in read), np.zeros(())) for name in names}
        solved = ridge(unpacked(total[DIAGONAL], total[GRAM]), total[CROSS], total[SQUARES])
        return {WEIGHT: solved.weight.astype(np.float32), BIAS: solved.bias.astype(np.float32)}

    @staticmethod
    def answers(rows: Singles, layer: Arrays) -> Singles:
        """Return probabilities, float32 [n, classes]."""
        outputs = SHARPNESS * (rows @ layer[WEIGHT].T + layer[BIAS])
        shares = np.exp(outputs - outputs.max(axis=1, keepdims=True, initial=-np.inf))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True), np.float32)


def _most(diagonal: Array) -> NDArray[np.float64]:
    """Return the largest magnitudes of products above a diagonal, row by row, as `closed_form.packed` has them."""
    lengths = np.sqrt(np.maximum(diagonal.astype(np.float64), 0.0))
    return packed(np.outer(lengths, lengths))[1]
