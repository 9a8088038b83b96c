"""Whole runs: what their summaries say of failures, and which runs are none."""

import json

import pytest

from fedgraft.contracts import ClientFailed
from fedgraft.engine.server.clock import DISCONNECTED
from fedgraft.errors import AllClientsFailedError, InputError
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.runtimes.workers.in_process import InProcess
from helpers.killed_runs import measured
from helpers.toy_runs import toy

NOTHING = {"setup": 0, "probe": 0, "training": 0, "scoring": 0}
EVERY = {"checkpoint": {"every_seconds": 0}}


def broken(points, fault="raise", at="training"):
    """The task, with a client of so many points that fails."""
    return {"name": "helpers.toy:Line", "fault": fault, "faulty_points": points, "at": at}


def failing(monkeypatch, fails):
    """Have requests fail: of these clients in these exchanges, counted from the first."""
    exchange, count = InProcess.exchange, [0]

    def failed(runtime, requests, limits, deadline_seconds):
        replies = exchange(runtime, requests, limits, deadline_seconds)
        count[0] += 1
        return {c: ClientFailed("gone") if fails(count[0], c) else reply for c, reply in replies.items()}

    monkeypatch.setattr(InProcess, "exchange", failed)


def test_a_run_without_failures_says_so(tmp_path):
    summary = execute(toy(), tmp_path / "run")
    assert summary["failures"] == NOTHING
    assert None not in summary["test_per_client"].values()


def test_a_summary_counts_failures_and_names_who_could_not_be_scored(tmp_path):
    summary = execute(toy(task=broken(120, at="scoring")), tmp_path / "run")  # client 2
    assert summary["failures"] == {**NOTHING, "scoring": 4}
    assert summary["validation"] is summary["test"] is summary["test_at_best_validation"] is None
    assert [point[3:5] for point in summary["curve"]] == [[None, None]] * 4
    assert summary["test_plain_mean"] is None
    assert [client for client, score in summary["test_per_client"].items() if score is None] == ["2"]
    assert summary["measures"] == {}
    assert summary["digest"] == execute(toy())["digest"]
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary
    assert (tmp_path / "run" / "model.safetensors").stat().st_size, "the last model, as none has a score"


def test_failures_are_counted_over_the_whole_of_a_run_that_was_resumed(tmp_path, monkeypatch):
    whole = execute(toy(task=broken(120)), tmp_path / "whole")
    assert whole["failures"] == {**NOTHING, "training": 3}
    folder = tmp_path / "run"

    class Stop:
        def after_round(self, state, row):
            if state.round == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(toy(task=broken(120), **EVERY), folder, Stop())
    assert RunFolder.open(folder).load()[0].clients.failures["training"] == 2
    assert measured(resume(folder)) == measured(whole)


ONE = {"name": "helpers.toy_methods:Scripted", "cohorts": [[2], [2], [2]]}


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"dropout": {"rate": 1.0}}, dict.fromkeys(range(5), DISCONNECTED)),
        ({"task": broken(120), "selector": ONE}, {2: "ValueError: this client is broken"}),
        ({"task": broken(120, "nan"), "selector": ONE}, {2: "training diverged: weight is not finite"}),
    ],
)
def test_a_run_that_nobody_ever_answered_is_an_error_with_every_reason(tmp_path, changes, reasons):
    with pytest.raises(
        AllClientsFailedError, match=r"^Round 3: all \d selected clients failed\.\n  client \d: "
    ) as caught:
        execute(toy(**changes, **EVERY), tmp_path / "run")
    assert caught.value.reasons == reasons
    assert not (tmp_path / "run" / "summary.json").exists()
    with pytest.raises(AllClientsFailedError):
        resume(tmp_path / "run")


def test_nor_does_anybody_answer_where_all_dropped_out_or_failed_by_turns(tmp_path, monkeypatch):
    failing(monkeypatch, lambda exchange, client: exchange > 1 and client < 2)
    cohorts = {"name": "helpers.toy_methods:Scripted", "cohorts": [[0], [1], [0]]}
    with pytest.raises(AllClientsFailedError) as caught:
        execute(toy(selector=cohorts), tmp_path / "run")
    assert caught.value.reasons == {0: "gone", 1: "gone"}


def test_a_deadline_that_nobody_keeps_is_an_error(tmp_path):
    tight = {"workers": 1, "deadline_seconds": 1e-9}
    with pytest.raises(AllClientsFailedError, match=r"^Round 0: all 5 selected clients failed\.") as caught:
        execute(toy(runtime=tight), tmp_path / "run")
    assert set(caught.value.reasons.values()) == {"no reply within the deadline"}
    assert not (tmp_path / "run").exists()


def test_one_answer_is_enough_for_a_result(tmp_path, monkeypatch):
    failing(monkeypatch, lambda exchange, client: exchange > 2 and client < 4)
    cohorts = {"name": "helpers.toy_methods:Scripted", "cohorts": [[0], [1], [2]]}
    summary = execute(toy(selector=cohorts), tmp_path / "run")
    assert summary["failures"] == {**NOTHING, "training": 2}


def test_who_trains_alone_has_answered_too(tmp_path):
    summary = execute(toy(sharing={"name": "cefgl", "probability": 0.0}), tmp_path / "run")
    assert summary["failures"] == NOTHING


def test_a_run_that_cannot_go_on_leaves_a_summary_and_its_best_model(tmp_path, monkeypatch):
    folder, whole = tmp_path / "run", execute(toy(rounds=2, **EVERY), tmp_path / "whole")
    failing(monkeypatch, lambda exchange, client: exchange > 3)
    with pytest.raises(
        AllClientsFailedError, match=r"Round 3: all 5 .*\n(.*\n)+What was learnt until round 2"
    ) as caught:
        execute(toy(rounds=6, **EVERY), folder)
    assert str(folder) in caught.value.kept
    store = RunFolder.open(folder)
    summary = store.summary()
    assert summary["stopped_by"] == "all clients failed"
    assert summary["digest"] == whole["digest"], "all that two rounds learnt"
    assert (folder / "model.safetensors").exists()
    store.load()
    store.check_rows()
    monkeypatch.undo()
    assert resume(folder)["digest"] == execute(toy(rounds=6, **EVERY))["digest"], "once clients are back it goes on"
    assert store.summary()["stopped_by"] == "rounds"


class Spoiling:
    """A watcher that stops after a round, as if nobody could go on from there."""

    def __init__(self, last):
        self.last = last

    def after_round(self, state, row):
        if state.round == self.last:
            raise KeyboardInterrupt


def test_a_run_goes_on_from_the_checkpoint_before_the_last(tmp_path):
    folder, whole = tmp_path / "run", execute(toy(rounds=5, **EVERY))
    with pytest.raises(KeyboardInterrupt):
        execute(toy(rounds=5, **EVERY), folder, Spoiling(3))
    rounds = []

    class Noting:
        def after_round(self, state, row):
            rounds.append(row.round)

    assert resume(folder, Noting(), before=True)["digest"] == whole["digest"]
    assert rounds == [3, 4, 5]
    assert [row["round"] for row in RunFolder.open(folder).rows()] == [1, 2, 3, 4, 5]


def test_a_run_can_go_back_once_from_each_checkpoint(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        execute(toy(rounds=5, sharing="scaffold", **EVERY), folder, Spoiling(3))
    store = RunFolder.open(folder)
    store.go_back()
    state, memories = store.load()
    assert state.round == 2
    assert len(memories) == 5, "and with it what clients remembered then"
    with pytest.raises(InputError, match="has no checkpoint before its last one"):
        store.go_back()


def test_a_damaged_checkpoint_is_not_gone_back_to(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        execute(toy(rounds=5, **EVERY), folder, Spoiling(3))
    before = folder / "checkpoint" / "state.before.bin"
    before.write_bytes(before.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"state\.before\.bin is damaged"):
        resume(folder, before=True)
    assert resume(folder)["rounds"] == 5, "the last one is as it was"
