"""Inputs: features and their squares."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedgraft.contracts.inputs import OwnInputs


@dataclass(frozen=True)
class Squares(OwnInputs):
    """Features and their squares, side by side."""

    def blocks(self, paths: int = 1) -> int:
        """Twice as wide."""
        return 2

    def together(self, features, paths):
        """Return both."""
        if isinstance(features, np.ndarray):
            return np.concatenate([features, features**2], axis=1)
        return sparse.csr_matrix(sparse.hstack([features, features.power(2)]))
