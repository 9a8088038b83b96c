"""How many files a new thing takes, all outside the tree: each toy is put there, run in a tiny federation, counted."""

import shutil
import sys
from importlib import import_module
from pathlib import Path

import pytest

import fedgraft
from fedgraft.engine.privacy import spending
from fedgraft.engine.protocol import table
from fedgraft.errors import InputError
from fedgraft.experiment.job import build
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.runtimes.workers.in_process import InProcess
from fedgraft.testing.runs import play
from fedgraft.wire import messages
from helpers.toy_graphs import write_tu

TOYS = Path(__file__).parent / "toys"
MOST = {"task": 3, "privacy_unit": 2}
"""{kind of toy: most files}; 1 of any other."""
NODES = {"name": "blocks", "nodes": 60, "clients": 2, "classes": 2, "features": 6}
RECIPE = {
    "data": NODES,
    "task": {"name": "node"},
    "model": {"name": "gcn", "hidden": 4},
    "selector": {"name": "all"},
    "training": {"optimizer": "sgd", "learning_rate": 0.1, "schedule": "constant"},
    "rounds": 2,
    "baselines": [],
}
SMALL = {"hidden": 4, "layers": 1}
TRANSFERS = ["source,target,amount,label", *(f"{k % 12},{(5 * k + 1) % 12},{k % 7},{k % 3 % 2}" for k in range(80))]
"""A table of edges."""


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """Puts a toy where Python finds modules outside the tree, and checks how many files it takes."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    registries = [spending.INSIDE, table.OUTSIDE, table._KNOWN, messages.KINDS, messages._KIND_NAMES]
    kept = [registry.copy() for registry in registries]

    def put(kind):
        files = list((TOYS / kind).glob("*.py"))
        assert 1 <= len(files) <= MOST.get(kind, 1)
        for file in files:
            shutil.copy(file, tmp_path)

    yield put
    for name in [name for name in {*sys.modules} - before if name.startswith("toy_")]:
        del sys.modules[name]
    for registry, entries in zip(registries, kept, strict=True):
        registry.clear()
        registry.update(entries)


@pytest.fixture
def of(tmp_path):
    """{task: sections of a tiny recipe}."""
    (tmp_path / "edges.csv").write_text("\n".join(TRANSFERS))
    (tmp_path / "nodes.csv").write_text("\n".join(["node,size", *(f"{k},{k % 5}" for k in range(12))]))
    data = {"name": "edges", **{name: str(tmp_path / f"{name}.csv") for name in ("nodes", "edges")}, "clients": 2}
    write_tu(tmp_path, graphs=60, attributes=True)
    graphs = {"name": "tu", "root": str(tmp_path), "sets": "MUTAG", "clients": 2, "attributes": "always"}
    typed = {"name": "typed_blocks", "papers": 15, "clients": 2, "classes": 2, "authors": 4, "venues": 2, "features": 8}
    return {
        "node": {},
        "node_regression": {"data": {**NODES, "labels": "numbers"}, "task": {"name": "node_regression"}},
        "link": {"task": {"name": "link", "width": 4}},
        "typed_node": {"data": typed, "task": {"name": "typed_node"}, "model": {"name": "metapath_means"}},
        "edge": {"data": data, "task": {"name": "edge", "windows": 2, "readout": 4}, "model": {"name": "gin", **SMALL}},
        "graph": {
            "data": graphs,
            "task": None,
            "model": {"name": "gin", **SMALL},
        },
    }


def run(workers=0, **sections):
    """What a tiny federation of a recipe comes to; a section that is None is left out."""
    content = {name: section for name, section in {**RECIPE, **sections}.items() if section is not None}
    return play(build(Recipe("toy", content)), lambda plan, shards: InProcess(plan, shards, workers))


def test_a_task(toy):
    toy("task")
    played = run(data={"name": "toy_rooms:Rooms"}, task=None, model=None, rounds=8)
    assert played.state.curve[-1]["test"] > played.state.curve[0]["test"]


def test_an_encoder_that_reads_edges(toy, of):
    toy("encoder")
    wires, plain = (run(**{**of["edge"], "model": {"name": name, **SMALL}}) for name in ("toy_wires:Wires", "gin"))
    assert len(wires.rows) == 2
    assert wires.digest != plain.digest


def test_a_sharing_method(toy):
    toy("sharing")
    assert run(sharing={"name": "toy_halves:Halves"}).digest != run().digest


@pytest.mark.parametrize("task", ["node", "node_regression", "link", "typed_node", "edge", "graph"])
def test_a_method_of_inputs(toy, of, task):
    toy("inputs")
    assert run(**of[task], inputs={"name": "toy_squares:Squares"}).digest != run(**of[task]).digest


@pytest.mark.parametrize(
    ("task", "usual"),
    [
        ("node", {"name": "halo", "neighbours": 0}),
        ("node_regression", {"name": "halo", "neighbours": 0}),
        ("edge", {"name": "windowed_halo", "history": False}),
    ],
)
def test_a_method_of_exchange(toy, of, task, usual):
    toy("exchange")
    deep = {"model": {"name": "gin", "hidden": 4, "layers": 2}}
    signs = run(**{**of[task], **deep}, exchange={"name": "toy_signs:Signs"})
    whole = run(**{**of[task], **deep}, exchange=usual)
    assert signs.digest != whole.digest
    assert signs.charged["statistics"] == whole.charged["statistics"] > 0


@pytest.mark.parametrize("task", ["node", "typed_node", "edge", "graph"])
def test_a_method_of_answers(toy, of, task):
    toy("answers")
    training = {**RECIPE["training"], "learning_rate": 1e-9}
    more = {"answers": {"name": "toy_oracle:Oracle"}, "runtime": {"workers": 0}, "training": training}
    sections = {**RECIPE, **of[task], **more}
    recipe = Recipe("toy", {name: section for name, section in sections.items() if section is not None})
    summary = fedgraft.run(build(recipe), progress=False).summary
    assert summary["smoothing"]["way"] == "labels"
    assert summary["smoothing"]["before"]["test"] < summary["test_at_best_validation"]
    assert summary["test_at_best_validation"] == 1.0


def test_a_unit_of_privacy(toy):
    toy("privacy_unit")
    alone = {"exchange": {"features": False, "states": False}, "model": {"name": "mlp", "hidden": []}}
    noisy = {**alone, "secure_sum": {"name": "clear"}, "evaluation": {"at": "clients"}}

    def hidden(task, unit):
        privacy = {"unit": unit, "epsilon": 8.0, "delta": 1e-3, "clip": 0.1, "shares": 1}
        data = {**NODES, "clients": 3, "nodes": 90}
        training = {**RECIPE["training"], "epochs": 1}
        return run(**noisy, data=data, task={"name": task}, privacy=privacy, training=training)

    assert hidden("toy_households:Houses", "household").digest != hidden("node", "node").digest
    assert spending.contains("household", "node")
    assert not spending.contains("node", "household")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_kind_of_message(toy, workers):
    toy("message")
    played = run(workers, selector={"name": "toy_noise:Quietest"})
    (first, second) = played.rows
    assert (len(first.selected), len(second.selected)) == (2, 1)
    assert [sent.round for sent in played.sent if sent.kind == "loudness"] == [1, 1, 2]
    assert played.charged["header"] > run().charged["header"]
    heard = played.state.selector
    assert second.selected == (min(heard, key=heard.get),)


@pytest.mark.parametrize(
    ("name", "number", "tells", "error"),
    [
        ("train", 200, {"mine": "losses"}, "a name of its own"),
        ("mine", 60, {"mine": "losses"}, "a number in"),
        ("mine", 201, {"loss": "losses"}, "names of their own"),
        ("mine", 201, {"mine": "secrets"}, "must be among"),
    ],
)
def test_a_kind_of_message_replaces_none_and_says_what_it_tells(name, number, tells, error):
    with pytest.raises(ValueError, match=error):
        table.declare(name, number, "anything", tells, dict)
    assert name not in table.OUTSIDE


def test_whoever_does_not_answer_a_kind_of_message_has_failed(toy):
    """The selector hears nothing of it in place of a report without the scalar."""
    toy("message")
    import_module("toy_noise")
    names, _ = table.OUTSIDE["loudness"]
    table.OUTSIDE["loudness"] = names, lambda plan, data: {"loudness": float("nan")}
    played = run(selector={"name": "toy_noise:Quietest"}, rounds=1)
    assert played.state.selector == {}
    assert set(played.rows[0].failed) == {0, 1}


def test_at_home_no_message_tells_scores(toy):
    toy("message")
    import_module("toy_noise")
    table.declare("loudness", 200, "a score", {"loudness": "scores"}, dict)
    with pytest.raises(InputError, match="'loudness' report them"):
        run(selector={"name": "toy_noise:Quietest"}, evaluation={"at": "home"})


def test_ways_that_send_rows_say_what_these_tell(toy):
    toy("answers")
    ways = import_module("toy_oracle").Knowing
    ways.hops, ways.row_width = 1, 2
    with pytest.raises(TypeError, match="row_tells"):
        run(answers={"name": "toy_oracle:Oracle"})


def test_numbers_of_edges_have_no_answers_to_better(of):
    numbers = {**of["edge"]["data"], "labels": "numbers", "label": "amount"}
    with pytest.raises(InputError, match=r"\[answers\] must be one that leaves answers alone"):
        run(**{**of["edge"], "data": numbers}, answers={"class_prior": True})
