"""Runs whose sums hold noise: what is hidden, what is refused, and what is said of it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedgraft.engine.client.clipped_gradients import descent, shortened
from fedgraft.engine.protocol.adversaries import HONEST, LYING, SIGNED
from fedgraft.errors import InputError
from fedgraft.experiment.described import without_data
from fedgraft.experiment.job import load
from fedgraft.experiment.running import runner
from fedgraft.reports.pages.html_report import write_report
from helpers.toy_graphs import write_tu

BLOCKS = {
    "data.name": "blocks",
    "data.nodes": 300,
    "data.clients": 6,
    "data.features": 8,
    "rounds": 4,
    "baselines": [],
    "secure_sum.name": "clear",
    "privacy.delta": 1e-4,
    "checkpoint.every_seconds": 0,
    "runtime.workers": 0,
}


def run(changes, folder, recipe="graft_node_private"):
    usual = BLOCKS if recipe == "graft_node_private" else {}
    return runner.execute(load(recipe, {**usual, **changes}), folder)


def same(found, expected):
    return all(found[key] == expected[key] for key in ("digest", "validation", "test", "failures"))


@pytest.fixture(scope="module")
def clear(tmp_path_factory):
    return run({}, tmp_path_factory.mktemp("clear") / "run")


def test_with_hardly_any_noise_it_is_gradient_descent(tmp_path):
    """Epsilon of a million, and nothing clipped: the model of federated averaging with one step of SGD a round."""
    rate = {"training.learning_rate": 0.05}
    run({**rate, "privacy.epsilon": 1e6, "privacy.clip": 15.0}, tmp_path / "quiet")
    none = {"privacy.unit": "", "privacy.epsilon": 0.0, "privacy.delta": 0.0, "secure_sum.name": ""}
    exact = run({**rate, **none}, tmp_path / "plain")
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("quiet", "plain"))
    experiment = load("graft_node_private", BLOCKS)
    first = experiment.fitted(experiment.shards()).plan.first
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], atol=0.15 * np.abs(other[name] - first[name]).max())
    assert "privacy" not in exact


@pytest.mark.parametrize("change", [{"runtime.workers": 2}, {"secure_sum.name": "secagg"}])
def test_masked_or_elsewhere_a_run_has_the_same_bits(change, clear, tmp_path):
    assert same(run(change, tmp_path / "run"), clear)


def test_noise_is_anothers_with_another_seed_or_epsilon(clear, tmp_path):
    assert run({"privacy.epsilon": 3.0}, tmp_path / "less")["digest"] != clear["digest"]


def reached(claim):
    """{adversary: epsilon that it can reach} of those that a claim covers."""
    return {row["adversary"]: row["epsilon"] for row in claim["adversaries"] if row["epsilon"] is not None}


def test_a_summary_says_what_is_claimed_and_keeps_the_last_model(clear, tmp_path):
    claim = clear["privacy"]
    assert 3.9 < claim["epsilon"] <= 4.0
    assert (claim["unit"], claim["delta"], reached(claim)) == ("node", 1e-4, {})
    assert claim["parts"][0]["shares"] == 5  # nine of ten of six, rounded up, but not all: each knows its own
    assert any("held-out" in line for line in claim["not_covered"])
    assert clear["test_at_best_validation"] == clear["test"]
    masked = run({"secure_sum.name": "secagg", "rounds": 1}, tmp_path / "masked")
    assert reached(masked["privacy"]) == {HONEST: masked["privacy"]["epsilon"]}
    assert any(line.startswith(f"{LYING}: ") for line in masked["privacy"]["not_covered"])
    own = run({"privacy.shares": 1, "rounds": 1}, tmp_path / "own")
    assert reached(own["privacy"]).keys() == {HONEST, LYING, SIGNED}
    assert own["privacy"]["mechanism"] == "discrete Gaussian at each client"


def test_the_claim_is_on_the_first_page_of_a_report(tmp_path):
    run({"rounds": 1}, tmp_path / "run")
    page = write_report([tmp_path / "run"], tmp_path / "page.html").read_text()
    assert "Differential privacy of run: epsilon 4 at delta 0.0001 where one node is in training or its part" in page
    assert "It does not cover:" in page
    assert page.index("Differential privacy of run") < page.index("<table")


def test_a_client_may_be_the_unit_with_any_local_training(tmp_path):
    change = {
        "privacy.unit": "client",
        "privacy.delta": 0.01,
        "training.epochs": 3,
        "training.optimizer": "adam",
        "training.learning_rate": 0.01,
        "inputs.propagate": 2,
    }
    found = run(change, tmp_path / "run")
    assert found["privacy"]["parts"][0]["what"] == "sums of clipped updates"
    assert same(run({**change, "secure_sum.name": "secagg"}, tmp_path / "masked"), found)


def test_a_round_with_too_little_noise_has_no_sum(tmp_path):
    """Two of six clients are down in nearly every round, and the noise of five is needed."""
    with pytest.raises(Exception, match="no round had a sum of 5 clients"):
        run({"dropout.rate": 0.5, "rounds": 1}, tmp_path / "run")


def test_an_updates_length_is_cut_and_nothing_else():
    arrays = {"a": np.array([3.0], np.float32), "b": np.array([[4.0]], np.float32)}
    made = shortened(arrays, 2.5)
    assert made["a"].tolist() == [1.5]
    assert made["b"].tolist() == [[2.0]]
    assert shortened(arrays, 5.0)["a"].tolist() == [3.0]
    assert shortened({"a": np.zeros(2, np.float32)}, 1.0)["a"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("hidden", [[], [5]])
def test_a_node_less_moves_a_clients_part_by_no_more_than_the_clipped_length(hidden):
    experiment = load("graft_node_private", {**BLOCKS, "model.hidden": hidden, "privacy.clip": 0.7})
    shards = experiment.shards()
    experiment = experiment.fitted(shards)
    plan = experiment.plan
    flat, data = plan.build_model(), plan.task.prepare(shards[0], {})
    whole, train = descent(plan, flat, data), data.rows["train"]
    for place in range(0, len(train), 5):
        data.rows["train"] = np.delete(train, place)
        rest = descent(plan, flat, data)
        moved = np.sqrt(sum(np.square(whole[name] - rest[name]).sum() for name in whole))
        assert 0 < moved <= 0.7 * (1 + 1e-6)
    data.rows["train"] = train


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"secure_sum.name": ""}, "each update is sent by itself: secure_sum.name = 'secagg'"),
        ({"privacy.unit": "nodes"}, r"privacy\.unit must be one of node, client .*Did you mean 'node'"),
        ({"inputs.propagate": 2}, "features are averaged over neighbours: inputs.propagate = 0"),
        ({"loss.label_smoothing": 0.1}, "losses depend on the client's shares of classes"),
        ({"loss.class_weights": "balanced"}, "class_counts|weights of classes depend"),
        ({"exchange.features": True}, "features"),
        ({"model.name": "sage"}, "the model reads a node's neighbours: model.name = 'mlp'"),
        ({"training.epochs": 2}, r"training\.epochs = 2 has no part: training\.epochs = 1"),
        ({"training.optimizer": "adam"}, r"training\.optimizer = 'adam' has no part"),
        ({"sampler.batch_size": 8}, "does not take all examples at once"),
        ({"sharing.name": "fedprox"}, "sharing FedProx trains by itself: sharing.name = 'fedavg'"),
        ({"selector.name": "oort"}, "selector Oort"),
        ({"codec.name": "quantized"}, "codec Quantized would have no part"),
        ({"patience": 3}, "patience would end a run by scores that hold no noise"),
        ({"budget.bytes": "1MB"}, "noise is for a number of rounds"),
        ({"answers.smoothing": 2, "answers.refit": "answers"}, r"rounds by its own scale: answers\.refit = ''"),
        ({"evaluation.at": "server"}, "looks at clients|look at clients"),
        ({"secure_sum.most_weight": 4}, "clients weigh more than others"),
        ({"privacy.epsilom": 4}, "Did you mean 'epsilon'"),
    ],
)
def test_what_noise_does_not_hide_is_refused_with_a_remedy(change, error):
    with pytest.raises(InputError, match=error):
        without_data("graft_node_private", change)


def test_more_rounds_than_noise_was_made_for_are_refused(clear, tmp_path):
    folder = tmp_path / "run"
    run({}, folder)
    with pytest.raises(InputError, match="noise was made for 4 rounds, and more would tell more"):
        runner.resume(folder, rounds=6)


def test_a_delta_for_fewer_units_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"privacy\.delta must be below 1 / \d+, the number of units"):
        run({"privacy.delta": 0.01}, tmp_path / "run")


def test_a_claim_is_told_before_anything_runs(fedgraft):
    changes = [f"{key}={json.dumps(value)}" for key, value in BLOCKS.items()]
    said = fedgraft("privacy", "graft_node_private", *changes, "--json").json()
    assert said["claim"]["unit"] == "node"
    assert said["costs"]["clients"] == 6
    assert (
        said["costs"]["bytes_up_a_round"] * 8 >= said["claim"]["parts"][0]["numbers"] * said["costs"]["bits_per_number"]
    )
    assert said["warnings"] == []
    shown = fedgraft("privacy", "graft_node_private", *changes, "privacy.epsilon=0.01")
    assert "hardly anything is learnt" in shown.out
    none = fedgraft("privacy", "graft_node")
    assert none.code == 2
    assert "claims no differential privacy" in none.err


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    """Overrides for a run on a folder of one small set of graphs."""
    root = tmp_path_factory.mktemp("tu")
    write_tu(root, graphs=60)
    given = {"data.root": str(root), "data.sets": "MUTAG", "data.clients": 4, "task.wl_width": 32}
    kept = {key: value for key, value in BLOCKS.items() if not key.startswith("data.")}
    return {**kept, **given, "rounds": 2}


def test_a_graph_is_a_unit_too(molecules, tmp_path):
    experiment = load("graft_graph_private", {**molecules, "privacy.clip": 0.7})
    shards = experiment.shards()
    experiment = experiment.fitted(shards)
    plan = experiment.plan
    flat, data = plan.build_model(), plan.task.prepare(shards[0], {})
    whole = descent(plan, flat, data)
    for place in range(0, len(data.train), 4):
        rest = descent(plan, flat, replace(data, train=np.delete(data.train, place)))
        moved = np.sqrt(sum(np.square(whole[name] - rest[name]).sum() for name in whole))
        assert 0 < moved <= 0.7 * (1 + 1e-6)
    found = run(molecules, tmp_path / "run", "graft_graph_private")
    assert found["privacy"]["unit"] == "graph"
    assert same(run({**molecules, "secure_sum.name": "secagg"}, tmp_path / "masked", "graft_graph_private"), found)


def test_the_linear_model_of_counts_trains_like_any_other(molecules, tmp_path):
    """Without noise, with minibatches: what autograd makes of it."""
    none = {"privacy.unit": "", "privacy.epsilon": 0.0, "privacy.delta": 0.0, "secure_sum.name": ""}
    change = {**molecules, **none, "sampler.batch_size": 8, "training.learning_rate": 0.5, "rounds": 6}
    assert run(change, tmp_path / "run", "graft_graph_private")["validation"] > 0.5
    with pytest.raises(InputError, match=r"task\.wl must be >= 1 with model\.hidden = \[\]"):
        without_data("graft_graph_private", {"task.wl": 0, "task.wl_shared": False})
    with pytest.raises(InputError, match="linear model of its subtrees alone"):
        without_data("graft_graph_private", {"model.name": "gin", "model.hidden": 8, "task.wl_shared": False})


CLIENTS = {"privacy.unit": "client", "model.hidden": [4]}


def test_parameters_of_a_clients_own_are_refused_once_the_model_is_known():
    experiment = load("graft_node_private", {**BLOCKS, **CLIENTS, "sharing.name": "fedper"})
    with pytest.raises(InputError, match="with sharing FedPer and task Node clients keep parameters"):
        experiment.fitted(experiment.shards())
