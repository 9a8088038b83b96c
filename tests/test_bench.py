"""The benchmarks run and compare equal work; how fast anything is depends on the machine and is not asserted."""

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
MODULES = (
    "bench",
    "codec",
    "floor",
    "graphs",
    "growth",
    "memory",
    "nodes",
    "nodes_usual",
    "overhead",
    "timing",
    "usual",
    "workers",
    "workloads",
)
ADAM = 3e-3
"""Two rounds of its steps: they are as long for a gradient of rounding errors, such as a bias before a batch
normalisation has, as for any other."""
TINY = 0.02
"""Times the size of Ciao."""


@pytest.fixture(scope="module", autouse=True)
def benchmarks_importable():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))
    for name in MODULES:
        sys.modules.pop(name, None)


def load(name):
    return import_module(name)


def test_every_figure_has_a_function_and_a_name_of_its_own():
    figures = load("bench").FIGURES
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        if figure.needs:
            pytest.importorskip(figure.needs, reason=f"{figure.needs} is not installed")
        assert callable(figure.function())


def test_rounds_are_taken_in_turns_and_warm_up_does_not_count():
    seen = []
    seconds = load("timing").in_turns({"a": lambda n: seen.append(("a", n)), "b": lambda n: seen.append(("b", n))}, 2)
    assert seen == [("a", 1), ("b", 1), ("b", 2), ("a", 2), ("a", 3), ("b", 3)]
    assert [len(values) for values in seconds.values()] == [2, 2]


def test_a_ratio_is_the_median_of_ratios_of_one_moment():
    assert load("timing").ratio({"a": [2.0, 30.0, 4.0], "b": [1.0, 10.0, 4.0]}, "a", "b") == 2.0


def test_the_floor_trains_the_same_model():
    workloads, floor = load("workloads"), load("floor")
    plan, shards = workloads.ciao_sized(TINY)
    bare = floor.Floor(plan, shards)
    with workloads.federation(plan, shards) as ours:
        for number in (1, 2):
            ours.round(number)
            bare.round(number)
        bare.flat.vector.copy_(bare.model)
        assert_equal(ours.model(), bare.flat.read())


def test_the_usual_loop_trains_the_same_model():
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    workloads, usual = load("workloads"), load("usual")
    plan, shards = workloads.ciao_sized(TINY)
    loop = usual.Usual(plan, shards)
    with workloads.federation(plan, shards) as ours:
        for number in (1, 2):
            loop.build_graphs(number)
            loop.round(number)
            ours.round(number)
        theirs = dict(loop.model.named_parameters())
        head = {name: value for name, value in ours.model().items() if not name.startswith("encoder.")}
        assert_equal(head, {name: theirs[name].detach().numpy() for name in head})
        for number, layer in enumerate(loop.model.encoder.layers):
            np.testing.assert_allclose(ours.model()["encoder.edge"][number], layer.edge.detach(), rtol=1e-3, atol=1e-5)


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_allclose(theirs[name], array, rtol=1e-3, atol=1e-5, err_msg=name)


def test_cheap_figures_are_positive_numbers():
    assert load("codec").encode_ms(values=1000, repeats=2) > 0
    assert load("codec").decode_ms(values=1000, repeats=2) > 0
    assert load("growth").clients_x10(few=10, repeats=2) > 0
    assert load("floor").over_floor(TINY, repeats=1) > 0
    assert np.isfinite(load("overhead").overhead_ms(repeats=2))


def test_bytes_of_a_value_count_shared_arrays_once():
    array = np.zeros(10)
    assert load("memory")._bytes({"a": array, "b": [array, (array,)]}) == 80


def test_the_table_says_what_was_missed(tmp_path, monkeypatch, capsys):
    bench = load("bench")
    monkeypatch.setattr(bench, "RESULT", tmp_path / "bench.json")
    monkeypatch.setattr(
        bench,
        "FIGURES",
        (
            bench.Figure("good", "timing:ratio", 2, "higher"),
            bench.Figure("bad", "timing:ratio", 2, "lower"),
            bench.Figure("other", "timing:ratio", 2, "lower"),
        ),
    )
    monkeypatch.setattr(bench.Figure, "function", lambda self: lambda: 3.0)
    bench.main(["--only", "good", "--only", "bad"])
    table = capsys.readouterr().out
    assert "ok" in table
    assert "Missed: bad" in table
    assert json.loads((tmp_path / "bench.json").read_text()) == {
        "good": {"value": 3.0, "limit": 2, "better": "higher"},
        "bad": {"value": 3.0, "limit": 2, "better": "lower"},
    }


def test_a_figure_whose_package_is_missing_is_skipped_with_the_reason(tmp_path, monkeypatch, capsys):
    bench = load("bench")
    monkeypatch.setattr(bench, "RESULT", tmp_path / "bench.json")
    monkeypatch.setattr(bench, "FIGURES", (bench.Figure("x", "no:where", 1, "lower", needs="no"),))
    bench.main([])
    assert "skipped: no is not installed" in capsys.readouterr().out


def test_graph_classification_ends_with_the_same_model_in_every_loop():
    graphs, workloads = load("graphs"), load("workloads")
    plan, shards = workloads.assays(24)
    floor, usual = graphs.Floor(plan, shards), graphs.Usual(plan, shards)
    with workloads.federation(plan, shards) as ours:
        for number in (1, 2):
            ours.round(number)
            floor.round(number)
            usual.round(number)
        for name, array in ours.model().items():
            np.testing.assert_allclose(floor.model[name], array, atol=ADAM)
    layers, expected = usual.models[0].convolutions.state_dict(), ours.model()
    for layer in (0, 1):
        for ours_name, theirs in (("inner", "nn.0"), ("outer", "nn.2")):
            found = layers[f"{layer}.{theirs}.weight"].numpy()
            np.testing.assert_allclose(found, expected[f"convolutions.{layer}.{ours_name}.weight"], atol=ADAM)


@pytest.mark.parametrize("model", ["s256", "g64"])
def test_node_classification_ends_with_the_same_model_in_every_loop(model):
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    nodes, usual, workloads = load("nodes"), load("nodes_usual"), load("workloads")
    plan, shards = nodes.sized(model, share=TINY)
    assert sum((shard.senders < shard.own).sum() for shard in shards) > 0, "edges that the loops could get wrong"
    floor, loop = nodes.Floor(plan, shards), usual.Usual(plan, shards)
    with workloads.federation(plan, shards, nodes.Random(clients=nodes.COHORT)) as ours:
        for number in (1, 2, 3):
            ours.round(number)
            floor.round(number)
            loop.round(number)
        assert_equal(ours.model(), floor.arrays())
        assert_equal(ours.model(), loop.model.arrays())
        assert max(abs(array - plan.first[name]).max() for name, array in ours.model().items()) > 1e-3


def test_figures_of_node_classification_are_positive_numbers():
    nodes = load("nodes")
    assert nodes.g64_over_floor(TINY, repeats=1) > 0
