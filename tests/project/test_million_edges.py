"""Very many edges: what is written is read as it is meant, a round is measured, and limits are told."""

import pytest

from fedgraft.experiment import job as jobs
from helpers.benchmarks import importable, load


@pytest.fixture(scope="module")
def million():
    with importable():
        yield load("million_edges")


@pytest.mark.parametrize("name", ["multigraph", "edge"])
def test_five_clients_have_all_edges_with_two_columns(million, tmp_path, name):
    recipe, write = million.CASES[name]
    built = jobs.load(recipe, {**write(tmp_path, 1000), "baselines": []}).agreed()
    graphs = [getattr(shard, "graph", shard) for shard in built.shards()]
    assert len(graphs) == million.CLIENTS
    assert {graph.edge_width for graph in graphs} == {2}
    assert sum(len(graph.senders) for graph in graphs) == pytest.approx(2000, rel=0.05), "loops are left out"


@pytest.mark.slow
def test_a_federation_is_measured_in_a_process_of_its_own(million):
    ((name, found),) = million.measure(["edge"], 1000, 0, 1)
    assert name == "edge"
    assert 0.1 < found["peak_gib"] < 2
    assert found["round_seconds"] > 0


def test_a_missed_limit_is_told(million, monkeypatch, capsys):
    figures = {"round_seconds": 21.0, "peak_gib": 3.0}
    monkeypatch.setattr(million, "measure", lambda *asked: iter([("edge", figures)]))
    million.main(["--only", "edge", "--edges", "50"])
    said = capsys.readouterr().out
    assert "50 edges" in said
    assert "round_seconds 21.00 <= 20 MISSED" in said
    assert "peak_gib 3.00 <= 16 ok" in said
