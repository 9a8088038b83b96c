"""What the attack on sums reaches on real data: as it is, with half the noise, and with none (docs/privacy.md)."""

from fractions import Fraction

import numpy as np
import pytest

from fedgraft.engine.privacy import private_sums
from fedgraft.experiment.attacking.attacks import canaries
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.experiment.storage.run_folder import RunFolder

pytestmark = [pytest.mark.data, pytest.mark.slow]

COMMON = {"secure_sum.name": "clear", "baselines": [], "runtime.workers": 0, "evaluation.every": 30}
PUBMED = {"data.root": "Planetoid", "data.clients": 100}
NCI1 = {"data.root": "TUDataset", "data.sets": "NCI1", "data.clients": 10}
CIAO = {"data.root": "ciao", "data.name": "ciao", "rounds": 1, "training.epochs": 1}
DISCRETE = private_sums.discrete_gaussian


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("recipe", "changes", "as_it_is", "half"),
    [
        ("graft_node_private", PUBMED, (0.4, 2.0), (1.6, 4.0)),
        ("graft_graph_private", NCI1, (0.4, 2.0), (0.9, 4.0)),
        ("graft_rating_private", CIAO, (0.5, 2.0), (1.5, 4.0)),
    ],
    ids=["pubmed", "nci1", "ciao"],
)
def test_a_claim_of_4_stands_and_is_refuted_without_noise(
    recipe, changes, as_it_is, half, data_root, tmp_path, monkeypatch
):
    root = {"data.root": str(data_root / changes["data.root"])}
    execute(load(recipe, {**COMMON, **changes, **root}), tmp_path / "run")
    run = FinishedRun(RunFolder.open(tmp_path / "run"))
    found = {}
    for factor in (Fraction(1), Fraction(1, 2), Fraction(0)):

        def drawn(variance, count, secret, factor=factor):
            return DISCRETE(variance * factor**2, count, secret) if factor else np.zeros(count, np.int64)

        monkeypatch.setattr(private_sums, "discrete_gaussian", drawn)
        found[factor] = canaries(run, 600)
        print(recipe, "noise times", factor, found[factor])
    whole, halved, none = found.values()
    assert as_it_is[0] < whole["epsilon"] < as_it_is[1] < whole["claim"] <= 4.0
    assert whole["auc"] + 0.05 < halved["auc"]
    assert half[0] < halved["epsilon"] < half[1]
    assert none["auc"] > 0.999
    assert none["epsilon"] > 4.0
