"""What answers lack of a client's own labels, fitted by ridge regression at the client: nobody else is told of it.

With S the answers [n, classes], Y the labels of the training examples t (1 for its class, 0 for others), and K the
inner products of what is known of two examples, answers become

    S + K_t (K_tt + p I)^-1 (Y - S_t).

Known are blocks of columns, such as inputs and hidden layers. Each block's rows are divided by the root of the mean of
their squared lengths over training examples; K is the mean over blocks, and `CONSTANT` for an intercept.

Source: Hoerl and Kennard, "Ridge Regression", Technometrics 1970; Saunders et al., "Ridge Regression Learning Algorithm
    in Dual Variables", ICML 1998; Marfoq et al., "Personalized Federated Learning through Local Memorization", ICML
    2022 (kNN-Per), for a client's own examples beside a global model that stays as it is.
Differs: kNN-Per mixes the labels of near examples into answers; here errors of all own examples are regressed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from fedgraft.contracts.values import Indices
from fedgraft.domains.closed_form import Floats

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
