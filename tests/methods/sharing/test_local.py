import numpy as np
import pytest

from fedgraft.experiment.running.runner import execute
from fedgraft.methods.sharing.local import Local
from helpers.toy_runs import looped, remembered, run, toy


def test_nothing_is_shared_and_nothing_collected():
    method, g = Local(), np.random.default_rng(0)
    assert not method.shares("anything")
    assert method.model(method.init({}, clients=3)) == {}
    assert not any(method.collects(None, round, g) for round in range(1, 9))


def test_not_a_byte_is_sent():
    summary = execute(toy(sharing={"name": "local"}, codec={"name": "quantized"}))
    assert summary["bytes"]["total"] == 0
    assert summary["curve"][-1][3] < summary["curve"][0][3]


def test_a_client_ends_where_it_would_without_the_others():
    experiment = toy(sharing={"name": "local"})
    shards = experiment.data.load(experiment.seed)
    _, _, everybody = run(experiment, shards=shards)
    _, _, alone = run(experiment, shards=shards[:1])
    assert remembered(everybody)[0] == remembered(alone)[0]
    assert remembered(everybody)[1] != remembered(everybody)[0]


def test_everybody_trains_in_every_round():
    with looped(toy(sharing={"name": "local"}, selector={"name": "random", "clients": 2})) as (loop, _):
        rows = []
        loop.run(loop.start(), lambda state, row: rows.append(row))
    assert [row.selected for row in rows] == [(0, 1, 2, 3, 4)] * 3


def test_it_beats_one_line_for_all_where_clients_differ():
    different = {"name": "helpers.toy:Lines", "shift": 3.0}
    alone = execute(toy(sharing={"name": "local"}, data=different, rounds=60))
    together = execute(toy(sharing={"name": "fedavg"}, data=different, rounds=60))
    assert alone["test"] == pytest.approx(0.1, abs=0.05), "down to the noise"
    assert together["test"] > 2 * alone["test"]
