"""A run goes on, and its model answers, only with the data and the options that it began with."""

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.provenance import RemoteClient, check_clients, check_options, digest_of, origin_of
from helpers.node_runs import SMALL

KILL = 30
"""The write to disk at which a run is killed."""


@dataclass
class Shard:
    """Some client's data."""

    name: str
    rows: np.ndarray
    more: object = None


def shards(**changes):
    return [Shard("a", np.arange(6.0).reshape(2, 3)), Shard(**{"name": "b", "rows": np.arange(3), **changes})]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(6), np.arange(6)[::-1]),
        (np.arange(6), np.arange(6).reshape(2, 3)),
        (np.arange(6), np.arange(6, dtype=np.int32)),
        (np.arange(6), np.arange(6).astype(float)),
        (np.array(["x", "y"], object), np.array(["y", "x"], object)),
        (np.array(["1"], object), np.array([1], object)),
        (("ab", "c"), ("a", "bc")),
        ([["a"], ["b"]], [["a", "b"], []]),
        (None, "None"),
        ({1, 2}, {1, 3}),
        (1, 1.0),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        (sparse.csr_matrix([[0, 1.0]]), sparse.csr_matrix([[1.0, 0]])),
        (sparse.csr_matrix([[0, 1.0]]), sparse.csr_matrix([[0, 2.0]])),
        (torch.arange(3), torch.arange(3) + 1),
        (pd.DataFrame({"x": [1, 2]}), pd.DataFrame({"y": [1, 2]})),
        (Shard("a", np.arange(3)), Shard("b", np.arange(3))),
    ],
)
def test_data_that_differ_have_other_digests(one, other):
    assert digest_of(one) != digest_of(other)
    assert digest_of(one) == digest_of(one)


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=20), place=st.integers(0, 19))
def test_one_number_alone_makes_a_difference(values, place):
    rows = np.array(values, np.float32)
    changed = rows.copy()
    changed[place % len(rows)] = 1.0 if rows[place % len(rows)] != 1.0 else 2.0
    assert digest_of(rows) == digest_of(rows.copy()) == digest_of(np.repeat(rows, 2)[::2]) != digest_of(changed)


def test_an_origin_is_what_json_gives_back():
    sections = {"seed": 1, "rounds": 3, "model": {"hidden": (8, 4)}, "clock": {"slow": float("inf")}}
    began = origin_of(sections, shards())
    assert json.loads(json.dumps(began, allow_nan=False)) == began
    assert began["options"] == {"seed": 1, "model.hidden": [8, 4], "clock.slow": "inf"}
    check_options(began, sections, "here")


def test_an_option_that_was_changed_is_named():
    began = origin_of({"seed": 1, "sampler": {"share": 0.5}}, shards())

    def check(**now):
        check_options(began, now, "here")

    check(seed=1, rounds=9, runtime={"workers": 2}, sampler={"share": 0.5})
    with pytest.raises(InputError, match=r"^here: sampler\.share = 0\.9, but the run began with 0\.5\. Undo that"):
        check(seed=1, sampler={"share": 0.9})
    with pytest.raises(InputError, match="seed = None, but the run began with 1"):
        check(sampler={"share": 0.5})
    with pytest.raises(InputError, match=r"sampler\.floor = 0\.1, but the run began with None"):
        check(seed=1, sampler={"share": 0.5, "floor": 0.1})


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (shards(rows=np.arange(3)[::-1]), "client 'b' of 2 has other rows"),
        (shards(name="c"), "client 'b' and 1 more of 2"),
        (shards()[:1], "client 'b' of 2"),
        ([Shard("a", np.zeros(1)), Shard("b", np.zeros(1))], "client 'a' and 1 more of 2"),
    ],
)
def test_clients_whose_data_changed_are_named(now, message):
    began = origin_of({}, shards())
    check_clients(began, shards(), "here")
    with pytest.raises(InputError, match=message):
        check_clients(began, now, "here")


# --- whole runs -------------------------------------------------------------------------------------------------------


@pytest.fixture
def tables(tmp_path):
    """Options of a run on own tables, and where its nodes are."""
    return written(tmp_path)


def written(folder):
    g, count = np.random.default_rng(0), 40
    nodes = pd.DataFrame({"node": [f"n{v}" for v in range(count)], "label": np.where(np.arange(count) % 2, "x", "y")})
    nodes["client"], nodes["width"] = np.where(np.arange(count) < 20, "east", "west"), g.random(count)
    edges = pd.DataFrame({"source": g.integers(0, count, 90), "target": g.integers(0, count, 90)}).map("n{}".format)
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    data = {"name": "nodes", "nodes": str(folder / "nodes.csv"), "edges": str(folder / "edges.csv")}
    options = {key: value for key, value in SMALL.items() if not key.startswith("data.")}
    return {**options, "data": data, "selector.clients": 2}, folder / "nodes.csv"


def reversed_rows(path):
    pd.read_csv(path)[::-1].to_csv(path, index=False)


def test_a_model_answers_from_data_in_another_order_but_not_from_others(tmp_path, tables):
    options, nodes = tables
    execute(load("fedais", {**options, "rounds": 2}), tmp_path / "run")
    asked = {"nodes": pd.DataFrame({"node": ["n1", "n2"]})}
    answers = predict(tmp_path / "run", asked)
    reversed_rows(nodes)
    pd.testing.assert_frame_equal(predict(tmp_path / "run", asked), answers)
    pd.read_csv(nodes).assign(width=1.0).to_csv(nodes, index=False)
    with pytest.raises(InputError, match=r"experiment\.toml names have changed .* client 'east' and 1 more"):
        predict(tmp_path / "run", asked)


@pytest.fixture(scope="module")
def begun(whole_run, tmp_path_factory):
    """A run on own tables, what a kill in its midst leaves of it, and where its nodes are: as they were, ever after."""
    options, nodes = written(tmp_path_factory.mktemp("tables"))
    return whole_run(load("fedais", {**options, "rounds": 6, "checkpoint.every_seconds": 0}), (KILL,)), nodes


def test_a_run_does_not_go_on_with_other_data(begun, tmp_path):
    run, nodes = begun
    folder, before = run.killed(KILL, tmp_path / "run"), nodes.read_text()
    nodes.write_text(before.replace("x", "z"))
    with pytest.raises(InputError, match=r"changed since the run began|but the data have"):
        resume(folder)
    nodes.write_text(before)
    assert resume(folder)["rounds"] == 6


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("seed = 1\n", "seed = 2\n", r"experiment\.toml: seed = 2, but the run began with 1"),
        ("share = 0.5\n", "share = 0.9\n", r"experiment\.toml: sampler\.share = 0\.9, but the run began with 0\.5"),
        ("rounds = 6\n", "rounds = 1\n", r"rounds must be >= \d, as many as were made; got 1"),
    ],
)
def test_a_run_does_not_go_on_with_other_options(begun, tmp_path, before, after, message):
    path = begun[0].killed(KILL, tmp_path / "run") / "experiment.toml"
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))
    with pytest.raises(InputError, match=message):
        resume(path.parent)
    path.write_text(text.replace("rounds = 6\n", "rounds = 7\n"))
    assert resume(path.parent)["rounds"] == 7


@pytest.mark.slow
def test_a_run_goes_on_with_more_rounds_and_other_workers(begun, tmp_path):
    path = begun[0].killed(KILL, tmp_path / "run") / "experiment.toml"
    path.write_text(path.read_text().replace("rounds = 6\n", "rounds = 7\n").replace("workers = 0\n", "workers = 1\n"))
    assert resume(path.parent)["rounds"] == 7


def test_data_of_a_client_whose_node_is_not_there_now_or_was_not_then_are_taken_as_they_are():
    here, away = [RemoteClient("north", "aa"), RemoteClient("south", "bb")], RemoteClient("south", "None")
    for then, now in ((here, [here[0], away]), ([here[0], away], here), ([here[0], away], [here[0], away])):
        check_clients(origin_of({}, then), now, "here")
    with pytest.raises(InputError, match="client 'south' of 2 has other rows"):
        check_clients(origin_of({}, here), [here[0], RemoteClient("south", "cc")], "here")
    with pytest.raises(InputError, match="client 'south' of 2 has other rows"):
        check_clients(origin_of({}, here), here[:1], "here")
