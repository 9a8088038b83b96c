"""The rating task: who answers which question, and with what."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.tasks.rating import Rating
from helpers.rating_shards import HAND, lively, shard_of


def test_who_answers():
    # "a" sells items 0 and 1, "b" item 2; user 0 has rated most at "b", user 1 only at "a".
    a = shard_of([(0, 0, 4, 0), (1, 0, 4, 0), (1, 1, 4, 0)], 2, 2, name="a")
    b = dataclasses.replace(shard_of([(0, 0, 4, 0), (0, 1, 4, 0)], 1, 2, name="b"), item_ids=np.array(["i2", "i3"]))
    asked = {
        "user": np.array(["u0", "u1", "u0", "u1", "nobody"]),
        "item": np.array(["i0", "i2", "new", "new", "new"]),
    }
    task = Rating(GCN())
    assert ensemble_of(task, [a, b], asked) == [0, 1, 1, 0, 0]
    assert ensemble_of(task, [a, b], {**asked, "client": np.array(["b", "a", "0", "1", "b"])}) == [1, 0, 0, 1, 1]
    with pytest.raises(InputError, match="No client named 'c'"):
        ensemble_of(task, [a, b], {**asked, "client": np.array(["c"] * 5)})


def ensemble_of(task, shards, asked):
    """Who answers each row."""
    client = np.full(len(asked.get("user", asked.get("item"))), -1)
    for number, questions in task.questions(shards, {"pairs": pd.DataFrame(asked)}).items():
        client[questions.rows] = number
    return client.tolist()


@pytest.mark.parametrize("column", ["user", "item"])
def test_questions_need_both_columns_and_no_gaps(column):
    task, asked = Rating(GCN()), {"user": np.array(["u0", "u1"]), "item": np.array(["i0", "i1"])}
    with pytest.raises(InputError, match=f"need a column '{column}'"):
        ensemble_of(task, [HAND], {name: values for name, values in asked.items() if name != column})
    with pytest.raises(InputError, match=f"row 2: '{column}' is empty"):
        ensemble_of(task, [HAND], {**asked, column: np.array(["x", np.nan], dtype=object)})


def test_ids_are_equal_as_text_whatever_type_a_file_gave_them():
    shard = dataclasses.replace(HAND, user_ids=np.array([7, 8, 9]))
    task, model = Rating(GCN()), lively(Rating(GCN()))
    item = np.array(["i0"])
    answers = [task.predict(model, shard, {}, {"user": np.array(user), "item": item}) for user in (["8"], [8], [8.0])]
    assert {answer["basis"][0] for answer in answers} == {"known user and item"}
    assert len({answer["rating"][0] for answer in answers}) == 1


def test_answers_say_what_is_new():
    shard = shard_of([(0, 0, 4, 0), (0, 1, 4, 0), (1, 0, 2, 2)], 2, 2)
    asked = {"user": np.array(["u0", "u1", "x", "x", "u0"]), "item": np.array(["i0", "i1", "i1", "y", "y"])}
    answer = Rating(GCN()).predict(lively(Rating(GCN())), shard, {}, asked)
    assert answer["basis"].tolist() == [
        "known user and item",
        "user new to the client",  # it has a test rating, which does not count
        "user new to the client",
        "user and item new to the client",
        "item new to the client",
    ]


def test_answers_for_test_pairs_have_the_rmse_of_the_summary(finished_run: Path):
    store = RunFolder.open(finished_run)
    run = jobs.Job.from_toml(store.experiment_toml())
    squares = []
    for number, shard in enumerate(run.data.load(run.seed)):
        rows = shard.rows("test")
        asked = pd.DataFrame(
            {
                "user": shard.user_ids[shard.user[rows]],
                "item": shard.item_ids[shard.item[rows]],
                "client": number,
            }
        )
        error = predict(finished_run, {"pairs": asked})["rating"].to_numpy() - shard.rating[rows]
        squares.append(error**2)
    rmse = math.sqrt(np.concatenate(squares).mean())
    assert rmse == pytest.approx(store.summary()["test_at_best_validation"], rel=1e-6)
