"""Runs whose answers are smoothed by sums over clients: as clear as masked, and told at random where that is asked."""

import json

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.client.contributing import contribution_of
from fedgraft.engine.client.smoothing import Smoothing
from fedgraft.engine.privacy.secure_sum import CODES
from fedgraft.engine.protocol import smoothing_kinds
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import BeyondLimitError, InputError
from fedgraft.experiment.claims import claim_of
from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.running.runner import execute
from fedgraft.runtimes.federation.audit import FILE
from fedgraft.secrets import randomised_response
from fedgraft.wire import Message
from helpers.local_sites import federated_files
from helpers.node_runs import SMALL
from helpers.toy_runs import looped

SUMMED = {
    **{name: value for name, value in SMALL.items() if name not in ("selector.clients", "sampler.batches")},
    "answers.smoothing": 2,
    "answers.refit": "",
    "selector.name": "all",
    "codec.scale": "agreed",
    "codec.rounding": "stochastic",
    "evaluation.at": "clients",
    "checkpoint.every_seconds": 0,
}
MASKED = {**SUMMED, "secure_sum.name": "secagg"}
HIDDEN = {
    "data.name": "blocks",
    "data.nodes": 300,
    "data.clients": 4,
    "data.features": 8,
    "rounds": 4,
    "baselines": [],
    "answers.smoothing": 2,
    "privacy.epsilon": 6.0,
    "privacy.answers": 2.0,
    "privacy.delta": 1e-4,
    "runtime.workers": 0,
    "checkpoint.every_seconds": 0,
}
GRAPHS = {
    **{"data.name": "molecules", "data.clients": 3, "data.graphs": 40, "model.hidden": 8, "baselines": []},
    **{"answers.class_prior": True, "rounds": 2, "runtime.workers": 0, "evaluation.at": "clients"},
    **{"sharing.name": "fedavg", "codec.name": "quantized", "codec.scale": "agreed", "codec.rounding": "stochastic"},
}
RUNS = {
    "nodes": ("graft_node", SUMMED),
    "classes of their own": ("graft_node", {**SUMMED, "answers.share_labels": True, "answers.class_prior": True}),
    "randomised": ("graft_node_private", HIDDEN),
    "graphs": ("graft_graph", GRAPHS),
}


def same(found, expected):
    keys = ("digest", "validation", "test", "measures", "smoothing", "failures")
    return all(found[key] == expected[key] for key in keys)


def clear_of(whole_run, name):
    recipe, changes = RUNS[name]
    return whole_run(load(recipe, {**changes, "secure_sum.name": "clear"}))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_masked_it_is_the_clear_one(whole_run, name, workers):
    recipe, changes = RUNS[name]
    found = execute(load(recipe, {**changes, "secure_sum.name": "secagg", "runtime.workers": workers}))
    assert same(found, clear_of(whole_run, name).summary)
    assert found["bytes"]["masking"] > 0
    assert not any(found["failures"].values())


@pytest.mark.parametrize("name", ["nodes", "randomised"])
def test_at_sites_it_is_the_clear_one(whole_run, name, tmp_path):
    recipe, changes = RUNS[name]
    masked = {**changes, "secure_sum.name": "secagg"}
    summary, sites = federated_files(recipe, masked, tmp_path)
    lines = [json.loads(line) for line in (sites.root / sites.names[0] / FILE).read_text().splitlines()]
    assert {line["decision"] for line in lines if line["kind"] != "begun"} == {"sent"}
    told = {line["kind"]: line.get("tells") for line in lines}
    assert (told["smooth"], told["hop"], told["tally"], told["smoothed"]) == (["answers"], ["answers"], [], [])
    if name == "nodes":  # noise and random answers are a site's own
        assert same(summary, clear_of(whole_run, name).summary)
        return
    (answered,) = (line for line in lines if "answered" in line)
    assert (answered["kind"], answered["answered"]) == ("smooth", 2.0)
    assert answered["epsilon"] == pytest.approx(6.0, abs=0.01)


def ran(changes, tamper, recipe="graft_node"):
    experiment = load(recipe, changes)
    shards = experiment.shards()
    experiment = experiment.fitted(shards)
    with looped(experiment, tamper, shards) as (loop, runtime):
        state = loop.run(loop.start(), lambda state, row: None)
        loop.smooth(state)
        memories = dict(runtime.memories(changed=False))
    return state, runtime, memories


SMOOTHED_KINDS = [row.name for row in smoothing_kinds.KINDS if row.added]


@pytest.mark.parametrize("kind", SMOOTHED_KINDS)
@pytest.mark.parametrize("name", ["clear", "secagg"])
def test_without_a_client_the_others_have_the_sum_of_theirs(name, kind):
    def tamper(asked, round, client, reply):
        return ClientFailed("is gone") if (asked, client) == (kind, 1) else reply

    state, *_, memories = ran({**SUMMED, "secure_sum.name": name}, tamper)
    others = [wire.unpack(memories[client])["smoothing"] for client in (0, 2, 3)]
    assert all("choice" in each and len(each["rows"]) == 2 for each in others)
    assert state.curve[-1]["lacking"] == 1
    assert state.best["test"] == state.smoothed["before"]["test"], "no score of some is compared with scores of all"
    if kind != "smoothed":
        assert state.smoothed["failed"] == {"1": "is gone"}


@pytest.mark.parametrize("kind", SMOOTHED_KINDS)
def test_of_too_few_there_is_no_sum_and_answers_are_left_alone(kind):
    def tamper(asked, round, client, reply):
        return ClientFailed("is gone") if asked == kind and client in (0, 1) else reply

    state, *_ = ran(MASKED, tamper)
    assert state.best["test"] == state.smoothed["before"]["test"]
    if kind != "smoothed":
        assert (state.smoothed["choice"], len(state.smoothed["failed"])) == (0, 4)


@pytest.mark.parametrize("kind", SMOOTHED_KINDS)
def test_a_client_that_adds_another_number_of_codes_is_refused(kind):
    experiment = load("graft_node", {**SUMMED, "secure_sum.name": "clear"})
    layout = Protocol.of(experiment.plan).reply_layouts[kind]

    def tamper(asked, round, client, reply):
        if (asked, client) != (kind, 1):
            return reply
        return wire.encode(Message(kind, round, arrays={CODES: np.zeros(3, np.uint8)}), layout)

    state, *_ = ran({**SUMMED, "secure_sum.name": "clear"}, tamper)
    assert state.curve[-1]["lacking"] == 1


def test_no_row_and_no_tally_is_in_a_message_but_under_a_mask():
    """Most of what a client adds is 0: a clear message shows that, a masked one does not."""
    sent = {}
    for name in ("clear", "secagg"):
        _, runtime, _ = ran({**SUMMED, "secure_sum.name": name}, None)
        sent[name] = {kind: message for kind, _, client, message in runtime.received if client == 0}
    for kind in SMOOTHED_KINDS:
        clear, masked = (np.frombuffer(sent[name][kind], np.uint8) for name in ("clear", "secagg"))
        assert len(clear) == len(masked)
        assert (clear == 0).mean() > 0.3 > 0.1 > (masked[28:] == 0).mean(), kind


@pytest.mark.parametrize("name", ["clear", "secagg"])
def test_what_sums_take_is_kept_back_of_a_budget(name):
    changes = {**SUMMED, "secure_sum.name": name, "rounds": 10, "baselines": []}
    free = execute(load("graft_node", changes))
    for share in (0.6, 0.9):
        budget = int(free["bytes"]["total"] * share)
        found = execute(load("graft_node", {**changes, "budget.bytes": budget}))
        assert found["stopped_by"] == "budget"
        assert found["smoothing"]["failed"] == {}
        assert found["bytes"]["total"] <= budget


def test_sums_take_no_more_than_is_kept_back_for_them():
    """Where a run trains for no round, what is left after the set-up is smoothing's alone."""
    experiment = load("graft_node", MASKED)
    shards = experiment.shards()
    experiment = experiment.fitted(shards)
    with looped(experiment, None, shards) as (loop, _):
        state = loop.run(loop.start(), lambda state, row: None)
        before = loop.ledger.total
        kept = loop._after.kept_bytes(state)
        loop.smooth(state)
        assert 0.5 * kept < loop.ledger.total - before <= kept


def test_answers_at_random_are_all_that_others_hear_of(tmp_path):
    """Rows of every hop are functions of what was drawn, and that is the likeliest class as often as it should be."""
    experiment = load("graft_node_private", HIDDEN)
    execute(experiment, tmp_path / "run")
    run = open_run(tmp_path / "run")
    right = []
    for client in range(4):
        kept = run.memory(client)["smoothing"]
        told = kept["told"]
        assert np.allclose(told.sum(1), 1, atol=1e-5)
        assert np.abs(told).max() * kept["scale"] == pytest.approx(1)
        assert len(np.unique(told)) == 2, "one of two numbers: of what was drawn, and of what was not"
        right += (told.argmax(1) == kept["answers"].argmax(1)).tolist()
    truth = randomised_response.truth_probability(run.plan.task.classes, 2.0)
    assert np.mean(right) == pytest.approx(truth, abs=4 * np.sqrt(truth * (1 - truth) / len(right)))


def test_rows_are_those_of_what_was_drawn_whatever_answers_are(monkeypatch):
    """With equal draws two models' rows are equal, bit by bit, after each hop."""
    drawn = np.random.default_rng(0)
    classes = {}

    def fixed(labels, count, epsilon, source):
        return classes.setdefault(len(labels), drawn.integers(0, count, len(labels)))

    monkeypatch.setattr(randomised_response, "answers", fixed)
    told = []
    for rate in (0.01, 4.0):
        _, runtime, _ = ran(
            {**HIDDEN, "secure_sum.name": "clear", "training.learning_rate": rate}, None, "graft_node_private"
        )
        told.append([bytes(message) for kind, *_, message in runtime.received if kind in ("smooth", "hop")])
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("recipe", "change", "error"),
    [
        ("graft_node", {**MASKED, "answers.refit": "answers"}, r"rounds by its own scale: answers\.refit = ''"),
        ("graft_node_private", {**HIDDEN, "answers.smoothing": 0}, r"of which none are told: answers\.smoothing = 2"),
        (
            "graft_node_private",
            {**HIDDEN, "privacy.answers": 6.0},
            r"below privacy\.epsilon = 6, of which it is",
        ),
        ("graft_node_private", {**HIDDEN, "answers.share_labels": True}, r"tell labels without noise"),
        ("graft_node_private", {**HIDDEN, "privacy.unit": "client"}, r"not of a whole client: privacy\.answers = 0"),
    ],
)
def test_what_does_not_go_together_is_refused_with_a_remedy(recipe, change, error):
    with pytest.raises(InputError, match=error):
        load(recipe, change)


def test_a_claim_has_both_parts_and_covers_answers_alone_where_they_are_random():
    for answers, covered in ((0.0, False), (2.0, True)):
        experiment = load("graft_node_private", {**HIDDEN, "privacy.answers": answers})
        shards = experiment.shards()
        claim = claim_of(experiment.fitted(shards), len(shards))
        assert claim["epsilon"] == pytest.approx(6.0, abs=0.01)
        assert len(claim["parts"]) == 1 + covered
        assert any("(smooth, hop)" in line for line in claim["not_covered"]) != covered


def test_rows_of_a_hop_that_is_not_due_are_refused():
    experiment = load("graft_node", {**SUMMED, "secure_sum.name": "clear"})
    shards = experiment.shards()
    plan = experiment.fitted(shards).plan
    _, runtime, memories = ran({**SUMMED, "secure_sum.name": "clear"}, None)
    (asked,) = (request for kind, _, client, request in runtime.sent if (kind, client) == ("hop", 0))
    order = wire.decode(asked, Protocol.of(plan).request_layouts, Protocol.of(plan).request_names)
    memory = {"smoothing": wire.unpack(memories[0])["smoothing"]}
    with pytest.raises(BeyondLimitError, match="asked for the rows after hop 1, where 3 are known"):
        Smoothing(plan, contribution_of(plan), b"").served(0, order, plan.task.prepare(shards[0], {}), memory)
