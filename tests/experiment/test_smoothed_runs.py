"""Whole runs whose answers are smoothed over the edges between clients after training."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import BudgetError, InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.experiment.storage.stored_state import check_state
from fedgraft.wire import Message
from helpers.killed_runs import measured
from helpers.node_runs import SMALL, small
from helpers.tiers import long_but_for
from helpers.toy_runs import charged, looped

SMOOTHED = {**SMALL, "answers.smoothing": 2, "checkpoint.every_seconds": 0}
LABELS = {"answers.share_labels": True}
HIDDEN = {"answers.refit": "hidden", "answers.class_prior": True}
LOCAL = {"answers.refit": "answers", "answers.local_fit": True}
RECIPES = ["graft_node", "fedlocal", "fedais", "fedgcn", "fedsage_plus"]
SHARING = ["local", "fedper", "cefgl", "gcfl"]
SHORT = {**SMOOTHED, **LABELS, **HIDDEN, "rounds": 2}
WRITES = range(1, 40, 3)
"""Those to disk at which a run is killed, from before its first checkpoint on."""
slow = pytest.mark.slow
SUMS = {
    "cross": ((7, 3), np.nan, np.float32),
    "diagonal": ((7,), 1, np.float32),
    "gram": ((21,), 1, np.int16),
    "squares": ((3,), 1, np.float32),
}
"""What a layer of three classes could be fitted to after two hops, but for a number that is none."""


def ran(experiment, shards, tamper=None):
    with looped(experiment, tamper, shards) as (loop, runtime):
        state = loop.run(loop.start(), lambda state, row: None)
        loop.smooth(state)
        memories = dict(runtime.memories(changed=False))
    return state, loop, runtime, memories


@pytest.mark.parametrize("labels", [{}, LABELS, HIDDEN, LOCAL], ids=["plain", "labels", "refitted", "fitted"])
@pytest.mark.parametrize("recipe", long_but_for(["graft_node", "fedais", "fedsage_plus"], RECIPES))
def test_answers_are_no_worse_on_validation_and_predict_gives_those_that_were_scored(whole_run, recipe, labels):
    whole = whole_run(load(recipe, {**SMOOTHED, **labels}))
    summary = whole.summary
    smoothing, after = summary["smoothing"], summary["measures"]["validation"]["accuracy"]
    assert after >= smoothing["before"]["validation"] - 0.05  # rows are rounded to a byte on their way
    assert summary["bytes"]["smoothing"] > 0
    assert smoothing["failed"] == {}
    run = open_run(whole.folder)
    nodes = pd.DataFrame({"node": np.concatenate([shard.ids for shard in run.shards])})
    found = predict(run, {"nodes": nodes})
    label = np.concatenate([np.array(shard.classes)[shard.label] for shard in run.shards])
    test = np.concatenate([shard.split == 2 for shard in run.shards])
    right = found["class"].to_numpy() == label
    assert right[test].mean() == pytest.approx(summary["test_at_best_validation"])


def behind(sharing):
    """A run whose models are the clients' own, or of groups."""
    return {**SMOOTHED, "sharing": {"name": sharing}, "evaluation.averaging": 0.0}


@pytest.mark.parametrize("sharing", SHARING)
def test_it_works_behind_models_of_their_own_and_of_groups(whole_run, sharing):
    assert whole_run(load("graft_node", behind(sharing))).summary["bytes"]["smoothing"] > 0


@slow
@pytest.mark.parametrize("sharing", SHARING)
def test_two_workers_give_the_same_behind_models_of_their_own_and_of_groups(whole_run, sharing):
    there = execute(load("graft_node", {**behind(sharing), "runtime.workers": 2}))
    assert measured(there) == whole_run(load("graft_node", behind(sharing))).summary


def test_every_byte_is_charged():
    experiment, shards = small("graft_node", answers__smoothing=2)
    _, loop, runtime, _ = ran(experiment, shards)
    for messages in (runtime.sent, runtime.received):  # the experimenter's own
        messages[:] = [message for message in messages if message[0] != "smoothed"]
    assert charged(runtime, loop.ledger)["smoothing"] > 0


def test_scored_at_clients_the_score_is_charged_too():
    sizes = []
    for at in ("server", "clients"):
        experiment, shards = small("graft_node", answers__smoothing=2, evaluation__at=at)
        state, *_ = ran(experiment, shards)
        sizes.append(state.bytes["smoothing"])
    assert sizes[1] > sizes[0] + 1000


@pytest.mark.parametrize("workers", [pytest.param(1, marks=slow), 2])
def test_any_number_of_workers_gives_the_same_bits(whole_run, workers):
    changes = {**SMOOTHED, **LABELS, **HIDDEN}
    there = execute(load("fedais", {**changes, "runtime.workers": workers}))
    assert measured(there) == whole_run(load("fedais", changes)).summary


@pytest.mark.parametrize("write", WRITES)
def test_killed_at_any_write_a_run_ends_as_if_it_had_not_been(whole_run, tmp_path, write):
    whole = whole_run(load("graft_node", SHORT), WRITES)
    folder = whole.killed(write, tmp_path / "run")
    if not (folder / "experiment.toml").is_file() or not RunFolder.open(folder).has_checkpoint:
        return
    resume(folder)
    assert measured(resume(folder)) == whole.summary
    ledgers = [(each / "ledger.jsonl").read_text() for each in (whole.folder, folder)]
    assert ledgers[0] == ledgers[1]


def test_killed_between_training_and_smoothing_only_smoothing_is_left(whole_run, tmp_path, monkeypatch):
    experiment = load("graft_node", {**SMOOTHED, **LABELS})
    expected = whole_run(experiment).summary
    with monkeypatch.context() as patch:
        patch.setattr("fedgraft.engine.server.loop.after_training.AfterTraining.run", lambda self, state: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            execute(experiment, tmp_path / "run")
    state, _ = RunFolder.open(tmp_path / "run").load()
    assert (state.round, state.finished, state.smoothed) == (SMALL["rounds"], "rounds", {})
    assert measured(resume(tmp_path / "run")) == expected
    assert measured(resume(tmp_path / "run")) == expected, "which is done once"


def test_the_digest_covers_how_answers_are_smoothed(whole_run):
    runs = (whole_run(load("graft_node", {**SMOOTHED, "answers.smoothing": hops})) for hops in (1, 2))
    one, other = (run.summary["digest"] for run in runs)
    assert one != other


def test_what_it_takes_is_kept_back_of_a_budget(tmp_path):
    long = {**SMOOTHED, "rounds": 50, "sampler.batches": 1, "evaluation.every": 10}
    free = execute(load("graft_node", long))
    for share in (0.5, 0.9):
        budget = int(free["bytes"]["total"] * share)
        found = execute(load("graft_node", {**long, "budget.bytes": budget}))
        assert found["stopped_by"] == "budget"
        assert found["bytes"]["total"] <= budget
        assert found["bytes"]["smoothing"] == free["bytes"]["smoothing"]
        assert found["bytes"]["total"] > 0.7 * budget, "and not much more"
    with pytest.raises(BudgetError, match=r"does not pay for smoothing answers \(answers\.smoothing\)"):
        execute(load("graft_node", {**SMOOTHED, "budget.bytes": 3000}))
    with pytest.raises(BudgetError, match=r"budget\.bytes = 300 does not pay for asking clients what joins them"):
        execute(load("graft_node", {**SMOOTHED, "budget.bytes": 300}))


@pytest.mark.parametrize("kind", ["border", "smooth", "hop", "sums", "tally", "choice", "smoothed"])
def test_a_client_that_fails_is_named_and_the_others_go_on(kind):
    experiment, shards = small("graft_node", answers__smoothing=2, answers__refit="answers")

    def tamper(asked, round, client, reply):
        return ClientFailed("is gone") if (asked, client) == (kind, 1) else reply

    state, *_, memories = ran(experiment, shards, tamper)
    others = [wire.unpack(memories[client])["smoothing"] for client in (0, 2, 3)]
    assert all("choice" in each for each in others)
    assert state.curve[-1]["lacking"] == 1
    assert np.isnan(state.curve[-1]["test"])
    assert state.best["test"] == state.smoothed["before"]["test"], "no score of some is compared with scores of all"
    if kind == "border":
        assert state.clients.failures["setup"] == 1
    elif kind != "smoothed":
        assert "1" in state.smoothed["failed"]


def test_where_no_client_tells_its_boundary_the_run_goes_on():
    experiment, shards = small("graft_node")

    def tamper(asked, round, client, reply):
        return ClientFailed("is gone") if asked == "border" else reply

    state, *_ = ran(experiment, shards, tamper)
    assert state.clients.failures["setup"] == len(shards)
    assert state.round == experiment.stopping.rounds
    assert state.best["test"] == state.smoothed["before"]["test"]


@pytest.mark.parametrize(
    ("kind", "arrays"),
    [
        ("smooth", {"rows": np.zeros((1, 2), np.int8)}),
        ("hop", {"rows": np.zeros((9999, 2), np.int8)}),
        ("tally", {"tallies": np.full((33, 2), 10**6, np.uint32)}),
        ("border", {"border": np.zeros(5, np.uint8)}),
        ("sums", {name: np.full(*of) for name, of in SUMS.items()}),
    ],
)
def test_replies_that_no_client_can_give_are_refused(kind, arrays):
    experiment, shards = small("graft_node", answers__smoothing=2, answers__refit="answers")
    layout = Protocol.of(experiment.plan).reply_layouts[kind]

    def tamper(asked, round, client, reply):
        return wire.encode(Message(kind, round, arrays=arrays), layout) if (asked, client) == (kind, 1) else reply

    state, *_ = ran(experiment, shards, tamper)
    if kind == "border":
        assert state.clients.failures["setup"] == 1
    elif kind != "smoothed":
        assert "1" in state.smoothed["failed"]


def test_labels_of_training_nodes_leave_their_client_only_where_they_are_shared():
    """Messages of smoothing under one model do not depend on labels: not one bit of them."""
    for labels in (False, True):
        experiment, shards = small("graft_node", answers__smoothing=2, answers__share_labels=labels)
        blind = [replace(each, label=np.where(each.split == 0, (each.label + 1) % 3, each.label)) for each in shards]
        told = [_rows_of(experiment, shards, each) for each in (shards, blind)]
        assert len(told[0]) == 4 * 2
        assert (told[0] == told[1]) == (not labels)


def _rows_of(experiment, shards, blind):
    """What clients with these labels tell in the hops, after a training with the others'."""
    plan = experiment.plan
    with looped(experiment, shards=shards) as (loop, runtime):
        state = loop.run(loop.start(), lambda state, row: None)
        client = runtime.inner._inline
        client._shards, client._prepared = blind, {}  # from here on
        loop.smooth(state)
    kinds = {"smooth", "hop"}
    found = [
        wire.decode(reply, Protocol.of(plan).reply_layouts) for kind, _, _, reply in runtime.received if kind in kinds
    ]
    return [message.arrays["rows"].tobytes() for message in found]


def test_no_message_depends_on_labels_of_test_nodes():
    experiment, shards = small("graft_node", answers__smoothing=2, answers__share_labels=True)
    blind = [replace(each, label=np.where(each.split == 2, (each.label + 1) % 3, each.label)) for each in shards]
    sent = []
    for each in (shards, blind):
        runtime = ran(experiment, each)[2]
        sent.append([message for kind, *_, message in (*runtime.sent, *runtime.received) if kind != "smoothed"])
    assert sent[0] == sent[1]


def test_a_node_added_later_is_smoothed_over_its_edges(tmp_path):
    folder = tmp_path / "run"
    execute(load("graft_node", {**SMOOTHED, **LABELS, "rounds": 6}), folder)
    run = open_run(folder)
    shard = run.shards[0]
    features = {str(k): [0.0] for k in range(8)}
    nodes = pd.DataFrame({"node": ["new"], "client": [shard.name], **features})
    answers = []
    for label in range(3):
        of_class = shard.ids[(shard.label == label) & (shard.split == 0)][:4]
        edges = pd.DataFrame({"source": ["new"] * len(of_class), "target": of_class})
        found = predict(run, {"nodes": nodes, "edges": edges})
        answers.append(found["class"][0])
    known = run.memory(0)["smoothing"]["choice"]
    assert known > 0
    assert len(set(answers)) > 1, "its features are the same; its neighbours are not"


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match=r"answers\.smoothing must be >= 0; got -1"):
        load("graft_node", {**SMALL, "answers.smoothing": -1})
    with pytest.raises(InputError, match=r"answers\.refit must be one of '', 'answers', 'hidden'; got 'answer'"):
        load("graft_node", {**SMALL, "answers.refit": "answer"})
    with pytest.raises(
        InputError, match=r"answers\.refit must be '' or 'answers' with a linear model, .* got 'hidden'"
    ):
        load("graft_node", {**SMALL, "model.hidden": []})
    with pytest.raises(InputError, match=r"answers\.share_labels must be false where answers\.smoothing is 0"):
        load("fedlocal", {**SMALL, "answers.share_labels": True})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("own", lambda own: own[:-1]),
        ("sizes", lambda sizes: sizes + 1),
        ("senders", lambda senders: senders + 10**6),
        ("pointers", lambda pointers: pointers[::-1].copy()),
    ],
)
def test_edges_between_clients_that_do_not_fit_are_damage(whole_run, name, change):
    experiment = load("graft_node", SMOOTHED)
    state, _ = RunFolder.open(whole_run(experiment).folder).load()
    experiment = experiment.fitted(experiment.data.load(1))
    check_state(state, experiment.plan, experiment.selector, "state.bin")
    state.exchange.boundaries = {**state.exchange.boundaries, name: change(state.exchange.boundaries[name])}
    with pytest.raises(InputError, match=r"state\.bin is damaged: state\.boundaries do not fit"):
        check_state(state, experiment.plan, experiment.selector, "state.bin")


def test_edges_between_clients_belong_to_a_task_that_smooths(whole_run):
    nothing = {"answers.smoothing": 0, "answers.refit": "", "answers.class_prior": False, "answers.local_fit": False}
    experiment = load("graft_node", {**SMOOTHED, **nothing})
    state, _ = RunFolder.open(whole_run(experiment).folder).load()
    assert (state.exchange.boundaries, state.smoothed) == ({}, {})
    state.exchange.boundaries = {"own": np.zeros(4, np.int64)}
    experiment = experiment.fitted(experiment.data.load(1))
    with pytest.raises(InputError, match=r"state\.boundaries are of another task"):
        check_state(state, experiment.plan, experiment.selector, "state.bin")
