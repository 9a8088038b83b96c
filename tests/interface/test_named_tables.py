"""Tables on the command line: any name that the run knows, in every way to write it; whatever else is one error."""

import os
from pathlib import Path
from threading import Thread

import pandas as pd
import pytest

from fedgraft.contracts.abilities.predicting import PredictingTask
from fedgraft.contracts.data import ClientTables
from fedgraft.contracts.parts import answering
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.interface.commands.predict import named_tables, spelled_out

KNOWN = {"--out": True, "-o": True, "--client": True, "--help": False}
PAIRS = "user,item\nuser-01,item-01\nnewcomer,item-02\n"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("RUN --pairs p.csv -o o.csv", "RUN --table pairs=p.csv -o o.csv"),
        ("--pairs p.csv RUN --data-edges=e.csv", "--table pairs=p.csv RUN --table data-edges=e.csv"),
        ("--out --pairs --client=--nodes", "--out --pairs --client=--nodes"),
        ("-o --pairs --help RUN", "-o --pairs --help RUN"),
        ("--a b=c.csv --d -e.csv", "--table a=b=c.csv --table d=-e.csv"),
        ("RUN -- --pairs p.csv", "RUN -- --pairs p.csv"),
    ],
)
def test_options_that_name_tables_are_spelled_out(given: str, found: str) -> None:
    assert spelled_out(given.split(), {**KNOWN, "--table": True}) == found.split()


@pytest.mark.parametrize("given", ["RUN --pairs", "--pairs -o o.csv", "--pairs --nodes n.csv", "--pairs= RUN"])
def test_a_table_without_a_file_is_said(given: str) -> None:
    with pytest.raises(InputError, match=r"^--pairs needs a value, the \.csv or \.parquet file of a table\.$"):
        spelled_out(given.split(), KNOWN)


def test_tables_are_named_once() -> None:
    assert named_tables(["a=b=c.csv", "d=e"]) == {"a": Path("b=c.csv"), "d": Path("e")}
    for text in ("a", "=a", "a="):
        with pytest.raises(InputError, match=rf"^--table must be NAME=FILE; got '{text}'\.$"):
            named_tables([text])
    with pytest.raises(InputError, match=r"^--a is given twice, 'b' and 'c'; give one file\.$"):
        named_tables(["a=b", "a=c"])


def test_a_pipe_is_a_table_of_csv(fedgraft, finished_run: Path) -> None:
    Path("pairs.csv").write_text(PAIRS)
    assert fedgraft("predict", finished_run, "--pairs", "pairs.csv", "-o", "first.csv").code == 0
    os.mkfifo("pipe")
    writer = Thread(target=lambda: Path("pipe").write_text(PAIRS))
    writer.start()
    assert fedgraft("predict", finished_run, "--pairs", "pipe", "-o", "again.csv").code == 0
    writer.join()
    assert Path("again.csv").read_text() == Path("first.csv").read_text()


def test_every_way_to_name_a_table_gives_the_same_answers(fedgraft, finished_run: Path) -> None:
    Path("pairs.csv").write_text(PAIRS)
    Path("own.csv").write_text("user,item,rating\nann,tea,5\nann,cake,4\nben,tea,2\n")
    first = [finished_run, "--pairs", "pairs.csv", "--data", "own.csv", "-o", "first.csv"]
    assert fedgraft("predict", *first).code == 0
    for again in (
        ["--pairs", "pairs.csv", "--data", "own.csv", finished_run],
        [finished_run, "--pairs=pairs.csv", "--data=own.csv"],
        ["--table", "data=own.csv", finished_run, "--table=pairs=pairs.csv"],
    ):
        assert fedgraft("predict", *again, "-o", "again.csv").code == 0
        assert Path("again.csv").read_text() == Path("first.csv").read_text()
    assert set(pd.read_csv("first.csv")["client"]) == {"own"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--pair", "p.csv"], "--pair is not for task 'rating', which takes --pairs, --data, --trust. Did you mean "),
        (["--table", "nodes=p.csv"], "--nodes is not for task 'rating', which takes --pairs, --data, --trust."),
        (["--clinet", "ann", "--pairs", "p.csv"], "--clinet is not for task 'rating'"),
        (["--pairs"], "--pairs needs a value"),
        (["--pairs", "p.csv", "--pairs", "p.csv"], "--pairs is given twice"),
        (["--pairs", "p.csv", "--trust", "p.csv"], "--trust belongs to --data, one client's own data; give both."),
        (["--data", "p.csv"], "Nothing is asked: give --pairs."),
        ([], "Nothing is asked: give --pairs."),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(fedgraft, finished_run: Path, given: list[str], words: str) -> None:
    Path("p.csv").write_text(PAIRS)
    done = fedgraft("predict", finished_run, "-o", "o.csv", *given)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {words}")
    assert done.err.count("\n") == 1
    assert not Path("o.csv").exists()


def test_help_lists_the_tables_of_every_task_that_there_is(fedgraft) -> None:
    shown = fedgraft("predict", "--help")
    assert shown.code == 0
    for name in discovery.names("tasks"):
        task = answering(discovery.find("tasks", name), PredictingTask)
        assert task is not None
        (line,) = (line for line in shown.out.splitlines() if line.split()[:1] == [name])
        own = {cls.own_tables for cls in map(find_data, discovery.names("data")) if own_of(cls, name)}
        for table in {*task.asks, *(each for tables in own for each in tables)}:
            assert f"--{table}" in line
            assert f"`{table}`" in fedgraft("show", name).out, "with its columns"


def find_data(name: str) -> type:
    return discovery.find("data", name)


def own_of(data: type, task: str) -> bool:
    return issubclass(data, ClientTables) and data.own_tables and data.task == task
