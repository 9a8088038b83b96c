"""A run that claims to hide units begins with no model that tells of them, and adds what its start has told."""

import pytest

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.running import runner
from fedgraft.experiment.running.warm_start import start_from

NODES = {
    **{"data.name": "blocks", "data.nodes": 90, "data.clients": 4, "data.features": 4, "rounds": 1},
    **{"privacy.delta": 1e-4, "privacy.clip": 1.0, "secure_sum.name": "clear", "baselines": []},
}
NO_NOISE = {
    **{"data.name": "blocks", "data.nodes": 90, "data.clients": 4, "data.features": 4, "rounds": 1},
    **{"privacy.unit": "", "privacy.epsilon": 0.0, "privacy.delta": 0.0, "baselines": [], "secure_sum.name": "clear"},
    **{"codec.name": "quantized", "codec.scale": "agreed"},
}


def run(folder, changes, start=None):
    experiment = load("graft_node_private", changes)
    return runner.execute(experiment, folder, start=None if start is None else start_from(start))


def test_a_start_without_noise_is_refused(tmp_path):
    """The attack: the model of a run without noise on the same data, under a claim of epsilon 4."""
    run(tmp_path / "open", NO_NOISE)
    with pytest.raises(InputError, match=r"--from .*open: privacy\.unit = 'node' hides a node, and that run holds no"):
        run(tmp_path / "hidden", NODES, tmp_path / "open")
    assert not (tmp_path / "hidden").exists()


@pytest.mark.slow
def test_a_start_that_hides_the_same_unit_is_added(tmp_path):
    first = run(tmp_path / "first", NODES)["privacy"]
    second = run(tmp_path / "second", NODES, tmp_path / "first")["privacy"]
    assert second["epsilon"] == pytest.approx(2 * first["epsilon"])
    assert second["delta"] == pytest.approx(2 * first["delta"])
    assert second["parts"][-1]["what"] == "the run that it begins with"
    again = runner.resume(tmp_path / "second")["privacy"]
    assert again == second, "taken up, it knows what its start has told"
    third = run(tmp_path / "third", NODES, tmp_path / "second")["privacy"]
    assert third["epsilon"] == pytest.approx(3 * first["epsilon"])


def test_a_start_that_hides_another_unit_is_refused(tmp_path):
    run(tmp_path / "clients", {**NODES, "privacy.unit": "client", "privacy.delta": 0.01})
    with pytest.raises(InputError, match="that run hides a client"):
        run(tmp_path / "nodes", NODES, tmp_path / "clients")


def test_a_start_without_noise_is_one_of_all_reasons(tmp_path):
    """Scores by which a run ends, too few clients, and what the start may tell: one error, before data are read."""
    run(tmp_path / "open", NO_NOISE)
    changes = {**NODES, "data.clients": 2, "patience": 2}
    with pytest.raises(InputError) as error:
        fedgraft.run("graft_node_private", overrides=changes, start=tmp_path / "open", progress=False)
    said = str(error.value)
    assert said.startswith("3 things must change: ")
    for reason in ("patience = 0", "data.clients = 3 or more", "begin with a run that hides a node, too, or leave"):
        assert reason in said
