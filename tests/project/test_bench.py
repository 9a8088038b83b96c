"""The benchmarks run and compare equal work; how fast anything is depends on the machine and is not asserted."""

import numpy as np
import pytest

from helpers.benchmarks import importable, load
from helpers.toy_runs import same

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
    with importable():
        yield


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_cheap_figures_are_positive_numbers():
    assert load("codec").encode_ms(values=1000, repeats=2) > 0
    assert load("codec").decode_ms(values=1000, repeats=2) > 0
    assert load("growth").clients_x10(few=10, repeats=2) > 0
    assert load("floor").over_floor(TINY, repeats=1) > 0
    assert load("ranking").over_floor(TINY, repeats=1) > 0
    assert np.isfinite(load("overhead").overhead_ms(repeats=2))
    assert load("reading").over_pandas(1000, repeats=1) > 0
    assert load("reading").codes_over_pandas(1000, repeats=1) > 0


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


def test_free_memory_is_known_or_endless():
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    assert load("typed_usual").free_gibibytes() > 0


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
