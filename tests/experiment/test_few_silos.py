"""With few silos recipes size themselves, and a run says when it has sent more than all data."""

import logging

import pytest

from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute, resume
from helpers.killed_runs import Killed

BLOCKS = {"data.name": "blocks", "data.nodes": 90, "data.clients": 3, "model.hidden": [8], "answers.smoothing": 0}
QUICK = {"rounds": 3, "runtime.workers": 0, "baselines": []}
PASSED, TOO_MANY = "more than sending all data once takes", "more than there are clients"


def experiment(**changes):
    return load("graft_node", {**BLOCKS, **QUICK, **{key.replace("__", "."): value for key, value in changes.items()}})


def fitted(told):
    return told.fitted(told.shards())


def test_all_of_few_clients_train_without_a_note(caplog):
    assert fitted(experiment()).recipe.sections["selector"]["clients"] == 3
    assert TOO_MANY not in caplog.text


@pytest.mark.parametrize("size", [10, 7])
def test_a_size_that_was_asked_for_is_said(caplog, size):
    assert fitted(experiment(selector__clients=size)).recipe.sections["selector"]["clients"] == 3
    assert f"selector.clients = {size} is {TOO_MANY}: all 3 train." in caplog.text


def test_so_is_one_of_a_recipe_of_one_s_own(tmp_path, caplog):
    (tmp_path / "mine.toml").write_text('extends = "graft_node"\nselector = {clients = 10}\n')
    fitted(load(str(tmp_path / "mine.toml"), {**BLOCKS, **QUICK}))
    assert TOO_MANY in caplog.text


def test_own_numbers_of_few_silos_are_learnt_by_all():
    changed = load("node_regression", {"data.name": "nodes", "data.nodes": "n.csv", "data.edges": "e.csv"})
    assert changed.selector.clients == 10
    assert not load("node_regression").selector.clients, "as in the recorded results"


def passed(caplog):
    return [record.getMessage() for record in caplog.records if PASSED in record.getMessage()]


def test_a_run_says_once_in_which_round_it_has_sent_more_than_all_data(caplog):
    told = experiment(rounds=16, evaluation__every=1)
    with caplog.at_level(logging.WARNING):
        summary = execute(told)
    totals = [point[1] for point in summary["curve"]]
    assert totals[1] < summary["raw_data_bytes"] < totals[-1], "or this tells nothing"
    [note] = passed(caplog)
    round = int(note.split()[1].rstrip(":"))
    before, after = (max(point[1] for point in summary["curve"] if point[0] <= each) for each in (round - 1, round))
    assert before <= summary["raw_data_bytes"] < after


def test_a_run_that_sends_less_says_nothing(caplog):
    execute(experiment(rounds=1))
    assert not passed(caplog)


class Dying:
    """Ends a run after a round as a kill would."""

    def after_round(self, state, row):
        if state.round == 15:
            raise Killed


def test_a_resumed_run_does_not_say_it_again(tmp_path, caplog):
    told = experiment(rounds=16).with_changes({"checkpoint.every_seconds": 0.0})
    with pytest.raises(Killed):
        execute(told, tmp_path / "run", Dying())
    assert len(passed(caplog)) == 1
    resume(tmp_path / "run")
    assert len(passed(caplog)) == 1
