"""The attack on sums: what a broken mechanism tells is found, and one that is whole stays below its claim."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedgraft.contracts.abilities.private import ClippedGradientTask
from fedgraft.domains.ratings import telling_users
from fedgraft.engine.client import addend, local_round
from fedgraft.engine.privacy import private_sums
from fedgraft.engine.server.sums import secure_sums
from fedgraft.errors import ClientError, InputError
from fedgraft.experiment.attacking.attacks import canaries, guesses_of, verdict
from fedgraft.experiment.attacking.canaries import Evidence, weighed_gradients
from fedgraft.experiment.attacking.guesses import marked_examples
from fedgraft.experiment.attacking.listening import heard, models
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.experiment.storage.run_folder import RunFolder

COMMON = {"secure_sum.name": "clear", "runtime.workers": 0, "baselines": [], "privacy.delta": 1e-5}
NODES = {
    **COMMON,
    "data.name": "blocks",
    "data.nodes": 1800,
    "data.clients": 3,
    "data.features": 100,
    "rounds": 5,
    "privacy.clip": 0.5,
    "evaluation.every": 5,
}
GRAPHS = {**COMMON, "data.sets": "MUTAG", "data.clients": 3, "privacy.epsilon": 2.0, "rounds": 2}
RATINGS = {
    **COMMON,
    "data.users": 900,
    "data.items": 150,
    "data.count": 6000,
    "data.clients": 3,
    "rounds": 1,
    "training.epochs": 1,
}
CLIENTS = {
    **COMMON,
    "data.name": "blocks",
    "data.nodes": 1200,
    "data.clients": 60,
    "data.features": 20,
    "rounds": 3,
    "privacy.unit": "client",
    "privacy.epsilon": 1.0,
    "privacy.delta": 1e-3,
    "privacy.clip": 1.0,
    "evaluation.every": 3,
}
DISCRETE, DESCENT, SHORTENED = private_sums.discrete_gaussian, local_round.descent, addend.shortened


def ran(recipe, changes, folder, seed=0):
    execute(load(recipe, {**changes, "seed": seed}), folder / f"seed-{seed}")
    return FinishedRun(RunFolder.open(folder / f"seed-{seed}"))


def write_rings(raw, graphs, nodes=10):
    """A TU set of rings of labelled nodes, of class 1 with a chord, no two alike."""
    raw.mkdir(parents=True)
    g = np.random.default_rng(0)
    edges = [(graph * nodes + at, graph * nodes + (at + 1) % nodes) for graph in range(graphs) for at in range(nodes)]
    edges += [(graph * nodes, graph * nodes + int(g.integers(3, 7))) for graph in range(0, graphs, 2)]
    files = {
        "A": [f"{a + 1}, {b + 1}" for one, other in edges for a, b in ((one, other), (other, one))],
        "graph_indicator": [1 + node // nodes for node in range(graphs * nodes)],
        "graph_labels": [graph % 2 for graph in range(graphs)],
        "node_labels": g.integers(1, 9, graphs * nodes).tolist(),
    }
    for part, lines in files.items():
        (raw / f"MUTAG_{part}.txt").write_text("\n".join(map(str, lines)) + "\n")


def noise_times(factor):
    def drawn(variance, count, secret):
        return DISCRETE(variance * Fraction(factor) ** 2, count, secret) if factor else np.zeros(count, np.int64)

    return drawn


def loose(privacy):
    return replace(privacy, clip=1000 * privacy.clip)


def unclipped(plan, flat, data):
    """A client that shortens nothing, or nearly so; its noise stays that of the claim."""
    return DESCENT(replace(plan, privacy=loose(plan.privacy)), flat, data)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    return ran("graft_node_private", NODES, tmp_path_factory.mktemp("nodes"))


@pytest.fixture(scope="module")
def as_it_is(nodes):
    return canaries(nodes, 600)


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    return ran("graft_node_private", CLIENTS, tmp_path_factory.mktemp("clients"))


# --- mutants ----------------------------------------------------------------------------------------------------------


def test_as_it_is_the_claim_was_within_reach_and_stands(as_it_is):
    assert (as_it_is["canaries"], as_it_is["read"]) == (576, "5 sums of gradients")
    assert as_it_is["claim"] == pytest.approx(4.0)
    assert 0.6 < as_it_is["auc"] < 0.8
    assert as_it_is["epsilon"] < 1.6 < as_it_is["claim"] < as_it_is["most"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_as_it_is_no_seed_refutes_the_claim(seed, tmp_path):
    found = canaries(ran("graft_node_private", {**NODES, "privacy.epsilon": 1.0}, tmp_path, seed), 600)
    assert found["epsilon"] < found["claim"] <= 1.0
    assert found["auc"] < 0.65


def test_noise_that_is_off_refutes_the_claim(nodes, as_it_is, monkeypatch):
    monkeypatch.setattr(private_sums, "discrete_gaussian", noise_times(0))
    found = canaries(nodes, 600)
    assert found["auc"] > 0.999
    assert found["epsilon"] > found["claim"]
    assert found["epsilon"] == pytest.approx(as_it_is["most"], abs=0.4)


def test_half_the_noise_tells_clearly_more(nodes, as_it_is, monkeypatch):
    monkeypatch.setattr(private_sums, "discrete_gaussian", noise_times(0.5))
    found = canaries(nodes, 600)
    assert found["auc"] > as_it_is["auc"] + 0.05
    assert found["epsilon"] > as_it_is["epsilon"] + 0.3


def test_a_little_of_the_noise_refutes_the_claim(nodes, monkeypatch):
    monkeypatch.setattr(private_sums, "discrete_gaussian", noise_times(1 / 32))
    found = canaries(nodes, 600)
    assert found["epsilon"] > found["claim"]


def test_clients_that_do_not_clip_refute_the_claim(nodes, monkeypatch):
    """The attacker believes nobody: it tries both explanations."""
    monkeypatch.setattr(local_round, "descent", unclipped)
    found = canaries(nodes, 600)
    assert found["epsilon"] > found["claim"]


def test_of_a_cohort_that_is_drawn_only_its_canaries_are_looked_for(tmp_path, monkeypatch):
    drawn = ran(
        "graft_node_private", {**NODES, "data.clients": 5, "selector.name": "random", "selector.clients": 3}, tmp_path
    )
    assert canaries(drawn, 600)["epsilon"] < 4.0
    monkeypatch.setattr(private_sums, "discrete_gaussian", noise_times(0))
    rounds = heard(drawn.experiment, drawn.shards)
    assert [len(each.clients) for each in rounds] == [3] * 5
    assert canaries(drawn, 600)["auc"] > 0.99


def test_masked_sums_tell_the_same(nodes, as_it_is, tmp_path):
    masked = ran("graft_node_private", {**NODES, "secure_sum.name": "secagg"}, tmp_path)
    assert canaries(masked, 600) == as_it_is


# --- units ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "changes", "read"),
    [
        ("graft_graph_private", GRAPHS, "2 sums of gradients"),
        ("graft_rating_private", RATINGS, "1 sum of statistics"),
        ("graft_rating_private", {**RATINGS, "privacy.unit": "user", "privacy.clip": 0.5}, "1 sum of statistics"),
    ],
    ids=["graph", "rating", "user"],
)
def test_every_unit_is_attacked(recipe, changes, read, tmp_path, monkeypatch):
    if "data.sets" in changes:
        write_rings(tmp_path / "data" / "MUTAG" / "raw", 240)
        changes = {**changes, "data.root": str(tmp_path / "data")}
    run = ran(recipe, changes, tmp_path)
    found = canaries(run, 400)
    assert found["read"] == read
    assert found["epsilon"] < found["claim"]
    monkeypatch.setattr(private_sums, "discrete_gaussian", noise_times(0))
    off = canaries(run, 400)
    assert off["auc"] > 0.999
    assert off["epsilon"] > found["claim"]


def test_users_whose_parts_are_not_cut_refute_the_claim(tmp_path, monkeypatch):
    run = ran("graft_rating_private", {**RATINGS, "privacy.unit": "user", "privacy.clip": 0.05}, tmp_path)
    summed = telling_users.summed
    monkeypatch.setattr(
        telling_users,
        "summed",
        lambda known, users, centre, unit, longest: summed(known, users, centre, unit, 1000 * longest),
    )
    found = canaries(run, 400)
    assert found["epsilon"] > found["claim"]


@pytest.mark.slow
def test_clients_are_canaries_where_they_are_the_unit(clients, monkeypatch):
    found = canaries(clients, 600)
    assert (found["canaries"], found["read"]) == (60, "3 sums of updates")
    assert found["epsilon"] < found["claim"] <= 1.0
    monkeypatch.setattr(private_sums, "discrete_gaussian", noise_times(0))
    off = canaries(clients, 600)
    assert (off["auc"], off["correct"], off["guesses"]) == (1.0, 60, 60)
    assert off["epsilon"] == off["most"] > off["claim"]


def whole(monkeypatch):
    monkeypatch.setattr(addend, "shortened", lambda upload, longest: SHORTENED(upload, 1000 * longest))


def test_clients_that_send_their_whole_updates_refute_the_claim(clients, monkeypatch):
    """Where the second thing that would stop them is broken, too: rounding until a part is short enough."""
    whole(monkeypatch)
    monkeypatch.setattr(private_sums, "rounded", lambda numbers, clip, step, *_: np.rint(numbers / step).astype(int))
    found = canaries(clients, 600)
    assert found["epsilon"] > found["claim"]


def test_without_a_sum_there_is_nothing_to_guess_from(clients, monkeypatch):
    def lost(*given):
        raise ClientError("too few are left")

    monkeypatch.setattr(secure_sums, "total_of", lost)
    with pytest.raises(InputError, match="no round of the recipe, run again with canaries, had a sum"):
        canaries(clients, 600)


# --- what is known of who guesses -------------------------------------------------------------------------------------


def test_without_noise_the_sums_lack_the_parts_of_who_was_left_out(nodes, monkeypatch):
    """All else is explained: what remains is rounding to steps, far below one gradient."""
    monkeypatch.setattr(private_sums, "discrete_gaussian", noise_times(0))
    marked = marked_examples(nodes, 300)
    rounds = heard(nodes.experiment, marked.trained)
    assert [each.clients for each in rounds] == [(0, 1, 2)] * 5
    seen = []
    add = Evidence.add

    def spy(self, parts, lacking):
        seen.append(np.linalg.norm(lacking - (~marked.inside) @ parts))
        add(self, parts, lacking)

    monkeypatch.setattr(Evidence, "add", spy)
    weighed = weighed_gradients(nodes, marked.whole, marked.rows, rounds)
    assert max(seen[::2]) < 0.5 * nodes.plan.privacy.clip  # every second one is of gradients that are not cut
    assert ((weighed.scores > 0) == marked.inside).all()


def test_models_are_those_that_were_sent(nodes):
    marked = marked_examples(nodes, 300)
    rounds = heard(nodes.experiment, marked.trained)
    sent = list(models(nodes.plan, rounds))
    assert len(sent) == 5
    for name, array in nodes.plan.first.items():
        np.testing.assert_array_equal(sent[0][name], array)
    assert any((sent[1][name] != sent[0][name]).any() for name in sent[0])


def test_a_guess_does_not_use_the_coins(nodes, as_it_is):
    """Sums with no canary's part left out tell nothing of coins, and who guesses is handed none."""
    marked = marked_examples(nodes, 600)
    rounds = heard(nodes.experiment, marked.whole)
    weighed = weighed_gradients(nodes, marked.whole, marked.rows, rounds)
    found = verdict(weighed.scores, marked.inside, 1e-5, 4.0)
    assert abs(found["auc"] - 0.5) < 0.07
    assert found["epsilon"] < 0.2
    assert weighed.scores.mean() > 0  # it does find that most were in
    other = np.random.default_rng(1).permutation(marked.inside)
    assert verdict(weighed.scores, other, 1e-5, 4.0)["epsilon"] < 0.2


def test_gradients_of_single_examples_are_those_that_are_asked_for_one_by_one(nodes):
    task, model = nodes.plan.task, nodes.plan.build_model()
    data, places = task.prepare(nodes.shards[0], {}), np.array([5, 0, 7])
    at_once = task.clipping.each_gradient(model.module, data, places)
    for name, array in ClippedGradientTask.each_gradient(task.clipping, model.module, data, places).items():
        np.testing.assert_allclose(at_once[name], array, rtol=1e-9, atol=1e-12)


def test_canaries_spare_an_example_of_every_client(nodes):
    marked = marked_examples(nodes, 10_000)
    task = nodes.plan.task.audited
    sizes = [len(task.labelled(shard, "train").rows) for shard in marked.whole]
    assert len(marked.inside) == sum(sizes) // 2
    assert all(len(rows) < size for rows, size in zip(marked.rows.values(), sizes, strict=True))
    assert (
        sum(len(task.labelled(shard, "train").rows) for shard in marked.trained) == sum(sizes) - (~marked.inside).sum()
    )


# --- guesses ----------------------------------------------------------------------------------------------------------


def evidence_of(parts, out, deviation, g, sums=4):
    evidence = Evidence(len(parts))
    for own in np.split(parts, sums, axis=1):
        evidence.add(own, out @ own + deviation * g.standard_normal(own.shape[1]))
    return evidence


def test_evidence_is_ridge_regression():
    """By the normal equations over all numbers at once, with the noise that was estimated."""
    g = np.random.default_rng(0)
    parts, out = g.standard_normal((6, 80)), np.array([1.0, 0, 0, 1, 1, 0])
    evidence = evidence_of(parts, out, 3.0, g)
    weighed = evidence.weighed()
    posterior = np.linalg.inv(4 * np.eye(6) + parts @ parts.T / weighed.noise)
    expected = posterior @ (evidence.along - parts @ parts.T @ np.full(6, 0.5)) / weighed.noise
    np.testing.assert_allclose(weighed.scores, -expected / np.diag(posterior), rtol=1e-6)
    assert 5 < weighed.noise < 14


def test_the_likelier_explanation_has_the_right_parts():
    g = np.random.default_rng(1)
    parts, out = g.standard_normal((20, 200)), (g.random(20) < 0.5).astype(float)
    lacking = out @ parts + g.standard_normal(200)
    right, wrong = Evidence(20), Evidence(20)
    right.add(parts, lacking)
    wrong.add(parts / 5, lacking)
    assert right.weighed().likelihood > wrong.weighed().likelihood


def test_noise_of_nothing_and_parts_that_span_nothing_are_borne():
    g = np.random.default_rng(2)
    parts = np.concatenate([g.standard_normal((8, 40)), np.zeros((2, 40))])
    out = np.array([1, 0, 1, 0, 1, 1, 0, 0, 1, 0.0])
    weighed = evidence_of(parts, out, 0.0, g).weighed()
    assert ((weighed.scores[:8] < 0) == (out[:8] == 1)).all()
    np.testing.assert_array_equal(weighed.scores[8:], 0)
    assert np.isfinite(Evidence(3).weighed().scores).all()
    more = g.standard_normal((50, 20))  # more canaries than numbers
    assert np.isfinite(evidence_of(more, np.zeros(50), 0.1, g).weighed().scores).all()


def test_guesses_of_odds_and_of_losses_by_hand():
    scores = np.array([3.0, -1.0, 0.5, -4.0, 2.0])
    surest, coins = guesses_of(scores, 2, odds=True)
    assert (surest.tolist(), coins.tolist()) == ([3, 0], [False, True])
    ends, coins = guesses_of(scores, 4, odds=False)
    assert (ends.tolist(), coins.tolist()) == ([0, 4, 1, 3], [True, True, False, False])


def test_scores_that_know_nothing_refute_something_in_a_twentieth_of_draws_at_most():
    """Over all numbers of guesses together, whatever the scores are."""
    g = np.random.default_rng(3)
    draws, refuted = 800, 0
    for draw in range(draws):
        scores, inside = g.standard_normal(120), g.random(120) < 0.5
        refuted += verdict(scores, inside, 0.0, None, odds=draw % 2 == 0)["epsilon"] > 0
    assert refuted / draws <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / draws)


# --- what is said -----------------------------------------------------------------------------------------------------


def test_the_command_says_what_it_means_and_what_was_within_reach(nodes, fedgraft):
    said = fedgraft("attack", str(nodes.run_folder.folder), "--kind", "canaries").out
    assert "From 5 sums of gradients, " in said
    assert "with 95 % confidence over 6 numbers of guesses." in said
    assert "With all guesses right, 576 canaries refute what is below 4.75: no attack on so many does more." in said
    assert "The claim of 4 was within reach, and stands." in said


def test_the_command_warns_where_the_claim_was_out_of_reach(nodes, fedgraft):
    told = fedgraft("attack", str(nodes.run_folder.folder), "--kind", "canaries", "--canaries", "100")
    assert "warning: 100 canaries cannot refute the claim of 4, however good the attack; --canaries 254 can" in told.out
    found = json.loads(
        fedgraft("attack", str(nodes.run_folder.folder), "--kind", "canaries", "--canaries", "100", "--json").out
    )["canaries"]
    assert found["most"] < found["claim"] < 4.01
    assert found["enough"] == 254


def test_a_refuted_claim_is_said_aloud(nodes, fedgraft, monkeypatch):
    monkeypatch.setattr(private_sums, "discrete_gaussian", noise_times(0))
    said = fedgraft("attack", str(nodes.run_folder.folder), "--kind", "canaries").out
    assert "THE CLAIM IS REFUTED: epsilon 4 is claimed. The run tells more than it says." in said


def test_few_clients_are_too_few_canaries(tmp_path):
    few = {**CLIENTS, "data.nodes": 200, "data.clients": 4}
    with pytest.raises(InputError, match=r"--kind canaries needs 6 canaries; of this run 4 could be some\."):
        canaries(ran("graft_node_private", few, tmp_path), 600)
