"""Central noise at a federation: from a secret of the server's folder, and refused by sites that count epsilon."""

import stat

import pytest

from fedgraft.engine.privacy.policy import Policy
from fedgraft.errors import InputError, Interrupted, RefusedError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.policies import own_policy, require_allowed
from fedgraft.experiment.running import runner, settled
from fedgraft.experiment.storage.client_files import shard
from helpers.local_sites import LocalSites
from helpers.stored_runs import Stops

CHANGES = {
    **{"data.name": "blocks", "data.nodes": 300, "data.clients": 6, "data.features": 6, "selector.clients": 3},
    **{"rounds": 4, "baselines": [], "privacy.epsilon": 60.0, "privacy.delta": 1e-3, "privacy.target_quantile": 0.0},
}
SECRET = "server_secret"


@pytest.fixture
def federation(tmp_path):
    """Make six sites with files of their own in a folder, and the recipe of all."""

    def make(name, allowed=None):
        names, root = [], tmp_path / name
        paths = shard(jobs.load("graft_node_central", CHANGES), root / "shards", lambda n, *_: names.append(n))
        changes = {"runtime.name": "sites", "baselines": [], "checkpoint.every_seconds": 0}
        experiment = jobs.load(str(root / "shards" / "recipe.toml"), changes)
        return experiment, LocalSites(experiment, [[str(path)] for path in paths], names, root / "nodes", allowed)

    return make


def test_cohorts_and_noise_follow_from_a_secret_that_no_other_run_has(federation, tmp_path):
    experiment, sites = federation("a")
    first = runner.execute(experiment, tmp_path / "one", sites=sites)
    second = runner.execute(experiment, tmp_path / "two", sites=sites)
    assert first["digest"] != second["digest"], "of one seed"
    told = first["privacy"]["not_covered"]
    assert not any(line.startswith("who knows the seed") for line in told)
    assert any(line.startswith("a round that is made again after a kill") for line in told)
    secret = tmp_path / "one" / SECRET
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert len(secret.read_bytes()) == 32
    assert secret.read_bytes() != (tmp_path / "two" / SECRET).read_bytes()


def test_a_run_that_is_taken_up_draws_the_same_again(federation, tmp_path, monkeypatch):
    monkeypatch.setattr(settled.secrets, "token_bytes", lambda count: bytes(range(count)))
    experiment, sites = federation("a")
    whole = runner.execute(experiment, tmp_path / "whole", sites=sites)
    with pytest.raises(Interrupted):
        runner.execute(experiment, tmp_path / "run", Stops(), sites=sites)
    monkeypatch.undo()
    assert runner.resume(tmp_path / "run", sites=sites)["digest"] == whole["digest"]


def test_without_its_secret_a_run_is_not_taken_up(federation, tmp_path):
    experiment, sites = federation("a")
    with pytest.raises(Interrupted):
        runner.execute(experiment, tmp_path / "run", Stops(), sites=sites)
    (tmp_path / "run" / SECRET).unlink()
    with pytest.raises(InputError, match=r"server_secret cannot be read"):
        runner.resume(tmp_path / "run", sites=sites)


def test_a_simulation_and_a_run_of_another_recipe_have_no_secret_file(tmp_path):
    few = {"rounds": 1, "privacy.epsilon": 8.0}  # not 60 of one round: noise for it takes seconds to find
    runner.execute(jobs.load("graft_node_central", {**CHANGES, **few}), tmp_path / "run")
    assert not (tmp_path / "run" / SECRET).exists()


def test_a_site_that_counts_epsilon_sends_no_update_without_noise(federation, tmp_path, caplog):
    experiment, sites = federation("a", Policy(epsilon=8.0))
    with pytest.raises(RefusedError, match="policy forbids"):
        runner.execute(experiment, tmp_path / "run", sites=sites)
    assert "not updates without noise (privacy.name = 'central' has the server add it" in caplog.text


def test_the_policy_check_says_so_beforehand_and_that_zero_trusts_the_server():
    experiment = jobs.load("graft_node_central", CHANGES)
    with pytest.raises(InputError, match=r"not updates without noise \(privacy\.name = 'central' has the server"):
        require_allowed(experiment, Policy(epsilon=8.0), "A site")
    assert own_policy(experiment).epsilon == 0.0, "a site whose own recipe is central trusts its server"
    require_allowed(experiment, own_policy(experiment), "A site")
