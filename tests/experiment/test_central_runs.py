"""Runs with a trusted server that adds the noise: what is claimed, what is refused, and the same bits everywhere."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedgraft.errors import InputError
from fedgraft.experiment.described import without_data
from fedgraft.experiment.job import load
from fedgraft.experiment.running import runner
from fedgraft.experiment.running.warm_start import start_from
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.reports.pages.html_report import write_report
from fedgraft.secrets.accountant import Released, epsilon_of
from helpers.resumed_runs import resumed_alike, worked_alike

CLIENTS, COHORT = 40, 10
BLOCKS = {
    **{"data.name": "blocks", "data.nodes": 600, "data.clients": CLIENTS, "data.features": 8},
    **{"selector.clients": COHORT, "rounds": 6, "evaluation.every": 3, "baselines": []},
    **{"privacy.epsilon": 20.0, "privacy.delta": 1e-3, "checkpoint.every_seconds": 0, "runtime.workers": 0},
}


def made(**changes):
    content = {**BLOCKS, **changes}
    if content.get("selector.name") == "all":
        del content["selector.clients"]
    return load("graft_node_central", content)


def run(folder, changes, start=None):
    return runner.execute(made(**changes), folder, start=None if start is None else start_from(start))


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("central") / "run"
    return run(folder, {}), folder


# --- what is claimed --------------------------------------------------------------------------------------------------


def test_the_claim_is_the_accountant_s_of_the_rounds_planned_at_the_share_of_the_cohort(first):
    claim = first[0]["privacy"]
    (part,) = claim["parts"]
    assert (part["rounds"], part["share"], part["cohort"]) == (6, COHORT / CLIENTS, COHORT)
    assert claim["epsilon"] <= 20.0
    counted = epsilon_of([Released(part["noise"], 6, COHORT / CLIENTS)], 1e-3)
    assert claim["epsilon"] == pytest.approx(counted, rel=1e-6)
    assert claim["epsilon"] >= counted


def test_the_claim_says_against_whom_it_is_and_who_is_trusted(first):
    claim = first[0]["privacy"]
    reached = {row["adversary"]: row["epsilon"] for row in claim["adversaries"]}
    assert reached["who gets the model"] == claim["epsilon"]
    assert reached["who is told who took part"] > claim["epsilon"]
    assert reached["the server"] is None
    assert claim["trusted"] == "the server"
    for said in ("the server: it is trusted", "who took part in which round", "exact scores", "who knows the seed"):
        assert any(line.startswith(said) for line in claim["not_covered"]), said
    page = write_report([first[1]], first[1] / "page.html").read_text()
    assert "the server is trusted" in page


def test_without_secret_coins_every_client_counts_in_every_round(tmp_path):
    few = {"selector.name": "random", "selector.clients": COHORT, "rounds": 2}
    claim = run(tmp_path / "few", {**few, "privacy.target_quantile": 0.0})["privacy"]
    (part,) = claim["parts"]
    assert (part["share"], part["cohort"]) == (1.0, COHORT)
    assert claim["epsilon"] == pytest.approx(epsilon_of([Released(part["noise"], 2)], 1e-3), rel=1e-6)
    assert claim["sampling"].startswith("none")
    assert "who is told who took part" not in {row["adversary"] for row in claim["adversaries"]}


def test_it_is_told_before_anything_runs_with_data_or_without(fedgraft):
    changes = [f"{key}={json.dumps(value)}" for key, value in BLOCKS.items()]
    said = fedgraft("privacy", "graft_node_central", *changes, "--json").json()
    assert said["costs"].keys() >= {"clients_a_round", "most_bytes_down_a_round", "most_bytes_up_a_round"}
    sizes = ("--numbers", str(said["claim"]["parts"][0]["numbers"]), "--clients", str(CLIENTS))
    without = fedgraft("privacy", "graft_node_central", *changes, *sizes, "--json").json()
    assert without["claim"] == said["claim"]
    small = fedgraft("privacy", "graft_node_central", "--numbers", "1503", "--clients", "20", "selector.clients=10")
    assert small.code == 2
    assert "the cohort at least" in small.err


# --- what a run is ----------------------------------------------------------------------------------------------------


def test_elsewhere_a_run_has_the_same_bits_and_after_a_kill(whole_run, tmp_path):
    experiment = made()
    summary = resumed_alike(whole_run, experiment, tmp_path / "run")
    assert summary["stopped_by"] == "rounds"
    worked_alike(whole_run, experiment)


def test_the_clipped_length_is_part_of_the_state_and_moves(first):
    state, _ = RunFolder.open(first[1]).load()
    length = float(state.sum_scales["length"])
    assert 0 < length != 1.0
    assert abs(np.log(length)) < 6 * 0.2 * 1.5


def test_hardly_any_noise_and_no_clipping_is_the_mean_of_all_updates(tmp_path):
    """Every client weighs the same: as federated averaging does of clients with equal many examples."""
    whole = {"selector.name": "all", "rounds": 3, "training.learning_rate": 0.05, "privacy.target_quantile": 0.0}
    run(tmp_path / "quiet", {**whole, "privacy.epsilon": 1e8, "privacy.clip": 2.0})
    open_ = {"privacy.name": "distributed", "privacy.unit": "", "privacy.epsilon": 0.0, "privacy.delta": 0.0}
    run(tmp_path / "plain", {**whole, **open_, "privacy.clip": 1.0})
    quiet, plain = (load_file(tmp_path / name / "model.safetensors") for name in ("quiet", "plain"))
    experiment = made()
    first = experiment.fitted(experiment.shards()).plan.first
    one, other = (np.concatenate([(each[name] - first[name]).ravel() for name in first]) for each in (quiet, plain))
    assert one @ other > 0.99 * np.linalg.norm(one) * np.linalg.norm(other)
    assert np.linalg.norm(one) == pytest.approx(np.linalg.norm(other), rel=0.02)


def test_a_round_of_nobody_has_noise_and_moves_the_model(tmp_path):
    changes = {"selector.clients": 1, "rounds": 5, "privacy.target_quantile": 0.0, "evaluation.every": 1}
    changes |= {"privacy.epsilon": 4.0}  # not 20 of so few coins: noise for it takes seconds to find
    run(tmp_path / "run", changes)
    rows = RunFolder.open(tmp_path / "run").rows()
    assert any(not row["selected"] for row in rows), "a coin of 1/40 each"
    state, _ = RunFolder.open(tmp_path / "run").load()
    assert state.merges == 5


def test_the_last_model_is_kept_and_more_rounds_are_refused(first, tmp_path):
    summary, _ = first
    assert summary["test_at_best_validation"] == summary["test"]
    run(tmp_path / "run", {})
    with pytest.raises(InputError, match="noise was made for 6 rounds, and more would tell more"):
        runner.resume(tmp_path / "run", rounds=9)


def test_a_start_adds_up_and_one_whose_server_was_trusted_does_not_hide_from_it(first, tmp_path):
    second = run(tmp_path / "second", {}, first[1])["privacy"]
    claim = first[0]["privacy"]
    assert second["epsilon"] == pytest.approx(2 * claim["epsilon"])
    told = [row["epsilon"] for each in (claim, second) for row in each["adversaries"] if "told" in row["adversary"]]
    assert told[1] == pytest.approx(2 * told[0])
    hidden = {"data.name": "blocks", "data.nodes": 600, "data.clients": CLIENTS, "data.features": 8, "rounds": 1}
    changes = {**hidden, "privacy.unit": "client", "privacy.delta": 1e-3, "secure_sum.name": "clear", "baselines": []}
    with pytest.raises(InputError, match=r"the server of that run was trusted: privacy\.name = 'central' here"):
        runner.execute(load("graft_node_private", changes), tmp_path / "third", start=start_from(first[1]))


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"privacy.unit": "node"}, r"privacy\.unit must be 'client' where privacy\.name = 'central'"),
        (
            {"secure_sum.name": "secagg"},
            r"single updates from it: secure_sum\.name = '', or privacy\.name = 'dis",
        ),
        ({"secure_sum.name": "clear"}, r"hides single updates from it: secure_sum\.name = ''"),
        (
            {"selector.name": "oort"},
            r"selector Oort cohorts differ, or depend on data: selector\.name = 'poisson'",
        ),
        ({"selector.name": "fastest"}, r"with selector Fastest"),
        ({"selector.name": "random", "selector.clients": 0}, r"with selector Random cohorts differ"),
        ({"safeguards.most_chosen": 2.0}, r"who was drawn often rest: safeguards\.most_chosen = 0"),
        ({"safeguards.clip": 1.0}, r"safeguards\.clip = 1 cuts updates as well: 0, and privacy\.clip"),
        ({"clock.late": "drop"}, r"clock\.late = 'wait'"),
        ({"aggregation.name": "median"}, r"aggregation Median compares them: aggregation\.name = 'mean'"),
        ({"sharing.name": "scaffold"}, r"sharing Scaffold merges more than a mean"),
        ({"sharing.name": "gcfl"}, r"sharing GCFL merges more than a mean"),
        ({"exchange.features": True}, r"features"),
        ({"patience": 3}, r"patience would end a run by scores that hold no noise: patience = 0"),
        ({"budget.bytes": "1MB"}, r"noise is for a number of rounds, not for what a budget pays for"),
        ({"privacy.target_quantil": 0.5}, r"Did you mean 'target_quantile'"),
    ],
)
def test_what_would_tell_clients_more_than_noisy_models_is_refused_with_a_remedy(change, error):
    with pytest.raises(InputError, match=error):
        without_data("graft_node_central", change)


def test_a_switch_for_secure_sums_does_not_turn_them_off_again():
    with pytest.raises(InputError, match="hides single updates from it"):
        without_data("graft_node_central", switch="--secure")


def test_parameters_of_clients_own_are_refused_once_the_model_is_known():
    experiment = made(**{"sharing.name": "fedper", "model.hidden": [4]})
    with pytest.raises(InputError, match="with sharing FedPer and task Node clients keep parameters"):
        experiment.fitted(experiment.shards())


def test_a_delta_for_fewer_clients_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"privacy\.delta must be below 1 / 40, the number of units"):
        run(tmp_path / "run", {"privacy.delta": 0.05})
