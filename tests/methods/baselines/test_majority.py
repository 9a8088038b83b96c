from pathlib import Path

import numpy as np
import pytest

from fedgraft.methods.baselines.majority import Majority
from fedgraft.methods.data.tu import TU
from helpers.toy_graphs import shard


def test_worked_example() -> None:
    first = shard([[]] * 6, [1] * 6, [1, 1, 0, 1, 0, 0], split=[0, 0, 0, 1, 2, 2])
    second = shard([[]] * 5, [1] * 5, [0, 1, 0, 1, 1], split=[0, 0, 1, 2, 2])
    # The first client says 1: right on 1 of 1 and 0 of 2. The second, undecided, says 0: right on 1 of 1 and 0 of 2.
    assert Majority().score([first, second]) == {"validation": 1.0, "test": 0.0}
    assert Majority().score([first]) == {"validation": 1.0, "test": 0.0}
    assert np.isnan(Majority().score([first.take(np.arange(3))])["test"])


@pytest.mark.data
def test_chem(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each set's largest class is 66.5, 78.8, 78.2, 61.0, 55.8, 80.0, 50.0 % of it: 61.9 % of all graphs.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Majority().score(TU(data_root / "TUDataset").load(1))["test"] == pytest.approx(0.619, abs=2e-3)
