"""The benchmarks run and compare equal work; how fast anything is depends on the machine and is not asserted."""

import json
import shutil
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from helpers.toy_runs import same

FOLDER = Path(__file__).parents[2] / "benchmarks"
MODULES = (
    "bench",
    "codec",
    "floor",
    "graphs",
    "growth",
    "memory",
    "nodes",
    "nodes_least",
    "nodes_usual",
    "overhead",
    "portable",
    "scale_clients",
    "scale_figure",
    "scale_nodes",
    "selection",
    "skipped",
    "testbed",
    "timing",
    "typed",
    "typed_usual",
    "usual",
    "workers",
    "workloads",
)
ADAM = 3e-3
"""Two rounds of its steps: they are as long for a gradient of rounding errors, such as a bias before a batch
normalisation has, as for any other."""
TINY = 0.02
"""Times the size of Ciao."""
FEW_NODES, MORE_NODES = 0.12, 0.83
"""Times the sizes of PubMed and of Coauthor: the fewest nodes that can have so many edges."""
SMALL = 0.1
"""Times the papers of ACM and the authors of DBLP."""


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
        if figure.least:
            module, name = figure.least.split(":")
            assert callable(getattr(load(module), name))


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
    assert load("ranking").over_floor(TINY, repeats=1) > 0
    assert np.isfinite(load("overhead").overhead_ms(repeats=2))


def test_every_selector_is_measured_with_a_cohort_of_the_same_size():
    selection = load("selection")
    assert selection.slowest_ms(count=20, cohort=4, floats=50, rounds=1) > 0
    assert selection.most_megabytes(count=20, cohort=4, floats=50, rounds=1) >= 0
    clients = selection.Clients(40, 4, 50)
    chosen = {name: selection.cost(name, clients, rounds=2).cohort for name in selection.MILLION}
    assert chosen == dict.fromkeys(selection.MILLION, 4)


def test_bytes_of_a_value_count_shared_arrays_once():
    array = np.zeros(10)
    assert load("memory")._bytes({"a": array, "b": [array, (array,)]}) == 80


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """The table, of three figures that are 3.0 each; its files are in a folder of the test."""
    bench = load("bench")
    monkeypatch.setattr(bench, "RESULT", tmp_path / "bench.json")
    monkeypatch.setattr(bench, "LAST_RELEASE", tmp_path / "last_release.json")
    bench.LAST_RELEASE.write_text('{"release": "0.0.9", "values": {"good": 3.2, "bad": 2.5}}')
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
    return bench


def test_the_table_says_what_was_missed(tmp_path, bench, capsys):
    bench.main(["--only", "good", "--only", "bad"])
    table = capsys.readouterr().out
    assert "ok" in table
    assert "Missed: bad" in table
    assert json.loads((tmp_path / "bench.json").read_text()) == {
        "good": {"value": 3.0, "limit": 2, "better": "higher"},
        "bad": {"value": 3.0, "limit": 2, "better": "lower"},
    }


def test_the_table_says_what_became_of_the_last_release_s_figures(bench, capsys):
    bench.main([])
    head, good, bad, other = capsys.readouterr().out.splitlines()[1:5]
    assert head.endswith("/ 0.0.9")
    assert good.endswith(" 0.94")
    assert bad.endswith(" 1.20 WORSE")
    assert other.endswith(" new")


@pytest.mark.parametrize(
    ("better", "value", "worse"),
    [("lower", 2.19, False), ("lower", 2.21, True), ("higher", 1.83, False), ("higher", 1.81, True)],
)
def test_a_figure_is_worse_when_it_is_so_by_more_than_a_tenth(better, value, worse):
    assert load("bench").Figure("x", "timing:ratio", 2, better).worse(value, before=2.0) is worse


def test_figures_are_kept_at_a_release_and_only_then(bench):
    before = bench.LAST_RELEASE.read_text()
    bench.main([])
    assert bench.LAST_RELEASE.read_text() == before
    bench.main(["--only", "bad", "--keep", "0.1.0"])
    kept = json.loads(bench.LAST_RELEASE.read_text())
    assert kept == {"release": "0.1.0", "values": {"good": 3.2, "bad": 3.0}}, "what was not measured stays"


def test_the_last_release_s_figures_are_those_of_the_table():
    bench = load("bench")
    kept = json.loads(bench.LAST_RELEASE.read_text())
    assert kept["values"].keys() <= {figure.name for figure in bench.FIGURES}
    assert all(value > 0 for value in kept["values"].values())


def test_a_figure_whose_package_is_missing_is_skipped_with_the_reason(tmp_path, monkeypatch, capsys):
    bench = load("bench")
    monkeypatch.setattr(bench, "RESULT", tmp_path / "bench.json")
    monkeypatch.setattr(bench, "FIGURES", (bench.Figure("x", "no:where", 1, "lower", needs="no"),))
    bench.main([])
    assert "skipped: no is not installed" in capsys.readouterr().out


def test_a_figure_that_cannot_be_measured_here_is_skipped_with_the_reason(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    bench, usual = load("bench"), load("typed_usual")
    monkeypatch.setattr(bench, "RESULT", tmp_path / "bench.json")
    monkeypatch.setattr(usual, "free_gibibytes", lambda: 3.0)
    bench.main(["--only", "han_acm_whole"])
    assert "skipped: PyG's layer takes 14 GiB, and 3 are free" in capsys.readouterr().out
    assert json.loads((tmp_path / "bench.json").read_text()) == {}


def test_free_memory_is_known_or_endless():
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    assert load("typed_usual").free_gibibytes() > 0


@pytest.mark.parametrize("name", ["acm", "dblp"])
def test_typed_graphs_end_with_the_same_model_without_a_federation(name):
    typed, workloads = load("typed"), load("workloads")
    plan, shards = typed.sized(name, SMALL)
    floor = typed.Floor(plan, shards)
    with workloads.federation(plan, shards, typed.Random(clients=typed.COHORT)) as ours:
        for number in (1, 2, 3):
            ours.round(number)
            floor.round(number)
        assert ours.model().keys() == floor.arrays().keys()
        for name, array in floor.arrays().items():
            np.testing.assert_allclose(ours.model()[name], array, atol=ADAM, err_msg=name)
        assert max(abs(array - plan.first[name]).max() for name, array in ours.model().items()) > 3 * ADAM


@pytest.mark.parametrize("whole", [False, True])
def test_pyg_s_han_takes_the_same_steps(whole):
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    usual = load("typed_usual")
    ours, theirs = usual.Ours("acm", whole, SMALL), usual.Usual("acm", whole, SMALL)
    for number in (1, 2):
        ours.round(number)
        theirs.round(number)
    found = theirs.model(theirs._features, theirs._edges).detach()
    np.testing.assert_allclose(found, ours.logits(), rtol=1e-2, atol=1e-3)


@pytest.mark.slow
def test_figures_of_typed_graphs_are_positive_numbers(monkeypatch):
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    monkeypatch.setattr(load("typed"), "WARM_UP", 1)
    assert load("typed").acm_over_floor(SMALL, repeats=1) > 0
    assert load("typed_usual")._over_ours("dblp", False, 1, SMALL) > 0


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
    plan, shards = nodes.sized(model, 2, share=FEW_NODES)
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


@pytest.mark.parametrize("model", ["s256", "g64"])
def test_the_least_federation_ends_with_the_same_bits(model):
    nodes, least, workloads = load("nodes"), load("nodes_least"), load("workloads")
    plan, shards = nodes.sized(model, 2, share=FEW_NODES)
    loop = least.Least(plan, shards)
    with workloads.federation(plan, shards, nodes.Random(clients=nodes.COHORT)) as ours:
        for number in (1, 2, 3):
            ours.round(number)
            loop.round(number)
        assert same(ours.model(), loop.arrays())


def test_the_floor_trains_the_same_model_where_the_first_layer_is_large():
    nodes, workloads = load("nodes"), load("workloads")
    plan, shards = nodes.sized("s256", 1, coauthor=True, share=MORE_NODES)
    floor = nodes.Floor(plan, shards)
    with workloads.federation(plan, shards, nodes.Random(clients=nodes.COHORT)) as ours:
        for number in (1, 2):
            ours.round(number)
            floor.round(number)
        assert_equal(ours.model(), floor.arrays())


@pytest.mark.slow
def test_figures_of_node_classification_are_positive_numbers(monkeypatch):
    nodes = load("nodes")
    monkeypatch.setattr(nodes, "WARM_UP", 1)
    assert nodes.g64_over_floor(1, FEW_NODES, repeats=1) > 0
    assert nodes.s256_over_floor(1, FEW_NODES, repeats=1) > 0
    monkeypatch.setattr(load("nodes_least"), "WARM_UP", 1)
    assert load("nodes_least").g64_over_least(FEW_NODES, repeats=1) > 0
    assert load("nodes_least").s256_over_least(FEW_NODES, repeats=1) > 0


@pytest.mark.slow
def test_the_usual_loop_over_nodes_is_timed_beside_ours(monkeypatch):
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    usual = load("nodes_usual")
    monkeypatch.setattr(usual, "WARM_UP", 1)
    assert usual.g64_over_ours(1, FEW_NODES, repeats=1) > 0


SMALL_GRAPH = {"nodes": 120, "clients": 12, "degree": 4, "features": 8, "classes": 2, "hidden": (4, 4)}


@pytest.mark.slow
def test_scale_measures_each_federation_in_a_process_of_its_own(monkeypatch):
    scale = load("scale_nodes")
    small, large = (scale.Size(**{**SMALL_GRAPH, "nodes": nodes}) for nodes in (120, 240))
    for together in (False, True):
        found = list(scale.measure([small, large], 2, together))
        assert [each["nodes"] for each in found] == [120, 240]
        assert [each["edges"] for each in found] == pytest.approx([240, 480], rel=0.05)
        for each in found:
            assert each["rounds"] == 5, "as many to warm up as a quarter of the clients, and two"
            assert 0.1 < each["peak_gib"] < 2
            assert each["setup_bytes"] > 0
            assert each["round_bytes"] > 0
            assert each["round_seconds"] > 0
            assert 0 < each["products_seconds"] < each["round_seconds"]
        assert found[0]["round_over_first"] == 1
        assert found[1]["round_operations"] > found[0]["round_operations"]


@pytest.mark.slow
def test_scale_says_which_size_could_not_be_measured():
    scale = load("scale_nodes")
    with pytest.raises(RuntimeError, match=r"Size\(nodes=1, .* ended with exit code 1"):
        scale.Served(scale.serve, scale.Size(**{**SMALL_GRAPH, "nodes": 1}))


def test_scale_prints_stores_and_judges(tmp_path, monkeypatch, capsys):
    scale, _ = load("scale_nodes"), load("scale_figure")
    measured = []

    def measure(sizes, repeats, together):
        measured.append((len(sizes), repeats, together))
        for size in sizes:
            yield {
                **{key: getattr(size, key) for key in ("nodes", "clients", "model")},
                **dict.fromkeys(
                    ("load_seconds", "setup_seconds", "round_seconds", "round_processor_seconds"), 0.123456
                ),
                **dict.fromkeys(("products_seconds", "round_bytes", "edges"), 100),
                **{"peak_gib": 13.0, "round_over_first": 1.0},
            }

    monkeypatch.setattr(scale, "measure", measure)
    monkeypatch.setattr(scale, "RESULT", tmp_path / "scale.json")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    scale.main(["--only", "reddit", "--rounds", "3"])
    scale.main(["--only", "clients"])
    sizes = scale.SERIES
    assert measured == [(len(sizes["reddit"]), 3, False), (len(sizes["clients"]), 20, True)]
    table = capsys.readouterr().out
    assert "reddit_peak             13.00 <= 12 GiB MISSED" in table
    assert "reddit_round             0.12 <= 0.5 s   ok" in table
    assert "No browser" in table
    stored = json.loads((tmp_path / "scale.json").read_text())
    assert set(stored["series"]) == {"reddit", "clients"}, "what was measured before stays"
    assert stored["series"]["reddit"][0]["load_seconds"] == 0.1235
    assert set(stored["limits"]) == {"reddit_peak", "reddit_round", "clients_x10"}
    scale.main(["--draw"])
    assert len(measured) == 2


def test_scale_is_drawn_as_committed():
    scale, figure = load("scale_nodes"), load("scale_figure")
    results = json.loads(scale.RESULT.read_text())["series"]
    assert set(results) == set(scale.SERIES)
    for name, sizes in scale.SERIES.items():
        assert [each["nodes"] for each in results[name]] == [size.nodes for size in sizes]
    drawn = figure.figure(results)
    lines = [trace for trace in drawn.data if trace.mode == "lines+markers"]
    assert len(lines) == 2 * sum(map(len, figure.LINES.values()))
    assert [len(trace.x) for trace in lines[:4]] == [4, 4, 5, 5]
    assert scale.RESULT.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
