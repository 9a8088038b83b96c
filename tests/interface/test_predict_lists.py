"""Questions that get several answers, and lists in place of a table, in Python and on the command line."""

import pandas as pd
import pytest

import fedgraft
from fedgraft.errors import InputError
from helpers.command import caller

SMALL = {
    "data": {"name": "catalogue", "users": 60, "items": 40, "count": 900, "clients": 3},
    "clock": {"devices": "lognormal", "deadline_seconds": 0.0},
    "selector": "all",
    "rounds": 1,
    "runtime": {"workers": 0},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fedgraft.run("reputation_ucb", out=tmp_path_factory.mktemp("ranking") / "run", progress=False, **SMALL)


USERS = ["user-02", "user-01"]


def test_a_list_of_users_gets_the_best_items_of_each(run):
    answers = run.predict(USERS, k=3)
    assert answers["user"].tolist() == [USERS[0]] * 3 + [USERS[1]] * 3
    assert answers["rank"].tolist() == [1, 2, 3, 1, 2, 3]
    assert answers.groupby("user", sort=False)["score"].apply(lambda scores: scores.is_monotonic_decreasing).all()
    assert len(run.predict(USERS[:1])) == 10, "as many as the task says"


def test_a_table_may_ask_for_different_numbers(run):
    asked = pd.DataFrame({"user": USERS[::-1], "k": [1, 4], "note": ["a", "b"]})
    answers = run.predict(users=asked)
    assert answers["user"].tolist() == [USERS[1]] + [USERS[0]] * 4
    assert answers["note"].tolist() == ["a"] + ["b"] * 4


def test_on_the_command_line(run, monkeypatch, capsys, tmp_path):
    call = caller(monkeypatch, capsys, tmp_path)
    done = call("predict", run.folder, "--users", ",".join(USERS), "-k", 2, "-o", "answers.csv")
    assert (done.code, done.out.strip() or done.err.strip()) == (0, "4 answers in answers.csv")
    assert pd.read_csv(tmp_path / "answers.csv", dtype=str)["user"].tolist() == [USERS[0]] * 2 + [USERS[1]] * 2
    missing = call("predict", run.folder, "--users", "users.csv", "-o", "answers.csv")
    assert missing.err.startswith("error: --users: no file")
    assert "No user named 'nobody'" in call("predict", run.folder, "--users", "nobody", "-o", "answers.csv").err
    assert call("predict", run.folder, "--users", USERS[0], "-k", 0, "-o", "answers.csv").code == 2


def test_other_tasks_give_one_answer_to_each_question(tmp_path):
    shops = {"name": "shops", "users": 60, "items": 80, "categories": 4, "clients": 2, "count": 600, "links": 100}
    run = fedgraft.run("fedacs", data=shops, out=tmp_path / "run", rounds=1, runtime={"workers": 0}, progress=False)
    pairs = pd.DataFrame({"user": ["user-01"], "item": ["item-01"]})
    with pytest.raises(InputError, match=r"\(-k 3\) is not for task 'rating', which gives one to each question"):
        run.predict(pairs, k=3)
