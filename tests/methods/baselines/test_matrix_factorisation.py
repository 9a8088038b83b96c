from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from fedgraft.errors import InputError
from fedgraft.methods.baselines.central_biases import CentralBiases
from fedgraft.methods.baselines.matrix_factorisation import MatrixFactorisation, _solve
from fedgraft.methods.data.ciao import Ciao
from fedgraft.methods.data.shops import Shops


def test_a_half_step_is_ridge_regression() -> None:
    g = np.random.default_rng(0)
    others = g.normal(size=(6, 3))
    user, item = np.array([0, 0, 0, 1]), np.array([1, 3, 5, 2])
    residual = g.normal(size=4)
    ones = scipy.sparse.csr_matrix((np.ones(4), (user, item)), (3, 6))
    table = scipy.sparse.csr_matrix((residual, (user, item)), (3, 6))
    found = _solve(ones, table, others, shrinkage=2.0, penalty=0.5)
    for row in range(2):
        mine = user == row
        inputs = np.column_stack([np.ones(mine.sum()), others[item[mine], 1:]])
        target = residual[mine] - others[item[mine], 0]
        exact = np.linalg.solve(inputs.T @ inputs + np.diag([2.0, 0.5, 0.5]), inputs.T @ target)
        np.testing.assert_allclose(found[row], exact)
    np.testing.assert_array_equal(found[2], 0)


def test_factors_beat_biases_where_there_are_tastes() -> None:
    shards = Shops(users=500, items=500, count=15_000, taste=1.0, noise=0.4).load(0)
    biases = CentralBiases().score(shards)["test"]
    factors = MatrixFactorisation(ranks=(4,), penalties=(4.0, 8.0)).score(shards)["test"]
    assert factors < biases - 0.03


def test_never_worse_than_biases_on_validation() -> None:
    shards = Shops(users=100, items=100, categories=4, links=0, count=1000, taste=0.0, clients=2).load(0)
    biases = CentralBiases().score(shards)["validation"]
    assert MatrixFactorisation(ranks=(2,), penalties=(1.0,)).score(shards)["validation"] <= biases


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": (0,)}, "MatrixFactorisation.ranks must be at least one number, each >= 1"),
        ({"penalties": (0.0,)}, "MatrixFactorisation.penalties must be at least one number, each > 0"),
        ({"sweeps": 0}, "MatrixFactorisation.sweeps must be >= 1; got 0"),
        ({"patience": 0}, "MatrixFactorisation.patience must be >= 1; got 0"),
        ({"spread": 0.0}, "MatrixFactorisation.spread must be > 0; got 0.0"),
        ({"seed": -1}, "MatrixFactorisation.seed must be >= 0; got -1"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MatrixFactorisation(**options)  # type: ignore[arg-type]


@pytest.mark.data
def test_real_data(data_root: Path) -> None:
    baseline = MatrixFactorisation(ranks=(2,), penalties=(16.0,))
    assert baseline.score(Ciao(str(data_root / "ciao")).load(seed=1))["test"] == pytest.approx(0.9454, abs=1e-3)
