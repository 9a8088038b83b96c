"""Ridge regressions on top of a trained model's answers: `LocalFit` of one client, `Refit` of all clients.

`LocalFit`: a client fits to its own labels the errors of answers; nobody else learns of it. With S the answers [n,
classes], Y the labels of the training examples t (1 for its class, 0 for others), and K the inner products of what is
known of two examples, answers become

    S + K_t (K_tt + p I)^-1 (Y - S_t).

Known are blocks of columns, such as inputs and hidden layers. Each block's rows are divided by the root of the mean of
their squared lengths over training examples; K is the mean over blocks, and `CONSTANT` for an intercept.

Source: Hoerl and Kennard, "Ridge Regression", Technometrics 1970; Saunders et al., "Ridge Regression Learning Algorithm
    in Dual Variables", ICML 1998; Marfoq et al., "Personalized Federated Learning through Local Memorization", ICML
    2022 (kNN-Per), for a client's own examples beside a global model that stays as it is.
Differs: kNN-Per mixes the labels of near examples into answers; here errors of all own examples are regressed.

`Refit`: a linear layer behind what is known after all hops, fitted in closed form to sums over all clients' examples.
With F_k = M^k [P, H] what is known after k hops, of the model's probabilities P and perhaps its last hidden layer H, it
reads Z = [F_0, F_1 .. F_K] and tells classes. Clients send Z^T Z and Z^T Y over their training examples, once.

Source: Frasca et al., "SIGN", 2020, for a model of all hops side by side; Hoerl and Kennard, "Ridge Regression",
    Technometrics 1970.
Differs: SIGN reads raw features after so many hops; here it is what a trained model makes of them, a few numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from fedgraft.contracts.values import Indices
from fedgraft.domains.closed_form import Floats, packed, ridge, unpacked
from fedgraft.wire.layouts import Array, Arrays, Layout, Spec

PENALTIES: Final = (3.0, 0.3, 0.03)
"""p to choose from, the gentlest first: an example's own K is about 1; ours."""
CONSTANT: Final = 0.01
"""Inner product of an intercept with itself; ours."""
_TINY: Final = 1e-12


@dataclass(frozen=True, eq=False)
class LocalFit:
    """The regression over a client's examples.

    Args:
        blocks: what is known of them, float32 [n, columns] each, dense or CSR.
        train: int64 [t], the training examples; label: int64 [n], classes of all examples; of others they are not read.
    """

    blocks: Sequence[Any]
    train: Indices
    label: Indices

    def fitted(self, answers: NDArray[np.float32], penalty: float) -> NDArray[np.float32]:
        """Return the changed answers, float32 [n, classes], not between 0 and 1; `penalty` is > 0."""
        if not len(self.train):
            return answers
        lacking = np.eye(answers.shape[1])[self.label[self.train]] - answers[self.train]
        if self._by_columns:
            rows = self._rows
            inner = rows[self.train].T @ rows[self.train] + penalty * np.eye(rows.shape[1])
            change = rows @ linalg.solve(inner, rows[self.train].T @ lacking, assume_a="pos")
        else:
            inner = self._products[self.train] + penalty * np.eye(len(self.train))
            change = self._products @ linalg.solve(inner, lacking, assume_a="pos")
        return np.asarray(answers + change, np.float32)

    @property
    def _by_columns(self) -> bool:
        """True where columns are fewer than training examples: the same numbers come from the smaller system."""
        return int(sum(block.shape[1] for block in self.blocks)) < len(self.train)

    @cached_property
    def _scaled(self) -> list[Any]:
        """The blocks, so that K is the sum of their inner products."""
        scaled = []
        for block in self.blocks:
            rows = block.astype(np.float64)
            known = rows[self.train]
            squares = known.multiply(known).sum() if sparse.issparse(known) else np.square(known).sum()
            length = np.sqrt(max(squares / len(self.train), _TINY) * len(self.blocks))
            scaled.append(rows / length)
        return scaled

    @cached_property
    def _rows(self) -> Floats:
        """All columns and the intercept's, [n, columns + 1]."""
        dense = [each.toarray() if sparse.issparse(each) else each for each in self._scaled]
        return np.concatenate([*dense, np.full((len(self.label), 1), np.sqrt(CONSTANT))], axis=1)

    @cached_property
    def _products(self) -> Floats:
        """K of all examples and training examples, [n, t]."""
        products = np.full((len(self.label), len(self.train)), CONSTANT)
        for each in self._scaled:
            inner = each @ each[self.train].T
            products += inner.toarray() if sparse.issparse(inner) else inner
        return products


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
