"""A node makes noise for the rounds of its own recipe or the server's, whichever are more: both ends agree on codes."""

import pytest

from fedgraft.errors import AllClientsFailedError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.running import runner
from fedgraft.experiment.storage.client_files import shard
from fedgraft.interface import federated_run
from fedgraft.runtimes.federation.audit import FILE, read
from helpers.local_sites import LocalSites

CHANGES = {
    **{"data.name": "blocks", "data.nodes": 400, "data.clients": 4, "data.features": 6, "baselines": []},
    **{"privacy.delta": 1e-4, "evaluation.every": 1},
}
OWN = 60


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Files of four sites and their recipe, of which each node has a copy with its own rounds."""
    root, names = tmp_path_factory.mktemp("shards"), []
    made = jobs.load("graft_node_private", {**CHANGES, "rounds": OWN})
    paths = shard(made, root, lambda name, *_: names.append(name))
    return str(root / "recipe.toml"), [[str(path)] for path in paths], names


def ran(shards, root, rounds, own=OWN, **changes):
    """The summary, and the first site's lines about noise; `rounds` are the server's, `own` the nodes'."""
    recipe, data, names = shards
    options = {"runtime.name": "sites", "baselines": [], **changes}
    sites = LocalSites(jobs.load(recipe, {**options, "rounds": own}), data, names, root / "nodes")
    summary = runner.execute(jobs.load(recipe, {**options, "rounds": rounds}), root / "run", sites=sites)
    lines = [line for line in read(root / "nodes" / names[0] / FILE) if "noise" in line]
    return summary, lines


def test_a_server_of_fewer_rounds_reads_sums_with_the_noise_of_more(shards, tmp_path):
    summary, lines = ran(shards, tmp_path, rounds=2)
    (claimed,) = summary["privacy"]["parts"]
    assert (claimed["rounds"], summary["rounds"]) == (OWN, 2)
    assert [line["noise"] for line in lines] == [claimed["noise"]] * 2
    assert lines[-1]["epsilon"] < 1.0 < summary["privacy"]["epsilon"], "two rounds of sixty are told"
    assert not any(summary["failures"].values())


def test_with_hardly_any_noise_it_is_the_run_on_one_machine(shards, tmp_path):
    """What is decoded is the sum, not garbage: codes of both ends have the same bits."""
    quiet = {"privacy.epsilon": 1e7}
    summary, _ = ran(shards, tmp_path, rounds=2, **quiet)
    here = runner.execute(jobs.load("graft_node_private", {**CHANGES, "rounds": 2, **quiet}), tmp_path / "here")
    for one, two in zip(summary["curve"], here["curve"], strict=True):
        assert one[3:5] == pytest.approx(two[3:5], abs=0.05), "roundings are others, by two nodes at most"


def test_a_site_that_makes_noise_for_more_rounds_than_the_server_knows_fails_and_says_so(shards, tmp_path, monkeypatch):
    """Its own recipe has other rounds than the federation's: codes have another size, and none is read as a number."""
    monkeypatch.setattr(federated_run, "lasting", lambda experiment, own: experiment)
    with pytest.raises(AllClientsFailedError, match=r"35 codes of \d+ bits take \d+ bytes; got \d+"):
        ran(shards, tmp_path, rounds=2)


def test_a_server_of_more_rounds_has_noise_for_all_of_them(shards, tmp_path):
    summary, lines = ran(shards, tmp_path, rounds=4, own=2)
    (claimed,) = summary["privacy"]["parts"]
    assert (claimed["rounds"], len(lines)) == (4, 4)
    assert lines[-1]["epsilon"] == pytest.approx(summary["privacy"]["epsilon"], abs=1e-3)
