"""The schema of a request holds what the run takes, in the words of its task and its data set, whatever these are."""

import jsonschema
import pytest

from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.interface.serve import request_schema
from helpers.served_runs import OWN, QUESTIONS, RUNS, make_runs


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("served"))


@pytest.mark.parametrize("task", RUNS)
def test_it_takes_what_is_answered_and_nothing_else(folders, task: str) -> None:
    schema = request_schema(open_run(folders[task]), 100, False)
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema).is_valid
    good = QUESTIONS[task]
    assert check(good)
    assert check({**good, "client": None})
    first = next(iter(good["tables"]))
    tables = good["tables"]
    for wrong in (
        {},
        {"tables": {}},
        {"tables": {**tables, "others": []}},
        {"tables": {**tables, first: "file.csv"}},
        {"tables": {**tables, first: [{"a": [1]}]}},
        {"tables": {**tables, first: [{}] * 101}},
        {**good, "client": 1},
        {**good, "count": 0},
        {**good, "more": 1},
    ):
        assert not check(wrong), wrong


def test_own_tables_belong_to_the_first_one_which_may_be_needed(folders) -> None:
    run = open_run(folders["rating"])
    tables = QUESTIONS["rating"]["tables"]
    for needed in (False, True):
        check = jsonschema.Draft202012Validator(request_schema(run, 100, needed)).is_valid
        assert check({"tables": tables}) is not needed
        assert check({"tables": {**tables, "data": OWN, "trust": []}})
        assert not check({"tables": {**tables, "trust": []}})


def test_a_number_of_answers_is_for_tasks_that_give_several(folders) -> None:
    counted = {task: "count" in request_schema(open_run(folders[task]), 9, False)["properties"] for task in RUNS}
    assert counted == {"rating": False, "node": False, "graph": False, "ranking": True, "edge": False}


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("rating", 'Asked: a table `pairs` with columns "user", "item" and perhaps "client".'),
        ("node", "One client's own tables: `data`, its nodes with features, and `data-edges`."),
        ("graph", "Asked: tables `nodes` and `edges` with the columns of the data set `graphs`"),
        ("ranking", 'Asked: a table `users` with columns "user" and perhaps "client" and "k", how many items (10).'),
    ],
)
def test_columns_are_told_in_the_words_of_the_task(folders, task: str, words: str) -> None:
    told = request_schema(open_run(folders[task]), 9, False)["properties"]["tables"]["description"]
    assert words in told
    assert "Args:" not in told
