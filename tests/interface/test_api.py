"""Runs from Python: choices as keywords, own tables, stored and not."""

import gc
import subprocess
import sys

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import torch

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.running.runner import execute
from helpers.tiny import TINY

SHOPS = {"name": "shops", **{key[5:]: value for key, value in TINY.items() if key.startswith("data.")}}
OPTIONS = {key: value for key, value in SHOPS.items() if key != "name"}
QUICK = {"rounds": 2, "runtime": {"workers": 0}, "baselines": ["global_mean"], "progress": False}


def ratings(named_clients=False):
    g = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "user": [f"u{k}" for k in g.integers(0, 30, 300)],
            "item": g.integers(0, 40, 300),
            "rating": g.integers(1, 6, 300),
            "note": "nobody's business",
        }
    ).drop_duplicates(["user", "item"])
    table["client" if named_clients else "category"] = table["item"].map(lambda item: f"part {item % 4}")
    return table


def trust():
    return pd.DataFrame({"user": [f"u{k}" for k in range(20)], "trusts": [f"u{(k + 1) % 20}" for k in range(20)]})


@pytest.fixture(scope="module")
def run():
    return fedgraft.run("fedacs", data=SHOPS, **QUICK)


def test_a_run_is_what_the_command_line_would_store(run, tmp_path):
    from fedgraft.experiment.running.runner import execute

    other = execute(jobs.load("fedacs", {**TINY, "task.folds": 10}), tmp_path / "run")
    assert run.summary["digest"] == other["digest"]


def test_history_and_ledger_agree(run):
    assert list(run.history) == [
        *("round", "selected", "failed", "loss", "validation", "test"),
        *("bytes", "bytes_total", "seconds", "simulated_seconds", "flops"),
        *("timings", "late", "staleness", "began", "scored", "explanation"),
    ]
    assert list(run.history["round"]) == [1, 2]
    assert run.ledger["bytes"].sum() == run.summary["bytes"]["total"]
    copy = run.history
    copy["round"] = 0
    assert list(run.history["round"]) == [1, 2]


def test_the_model_is_the_one_that_was_best(run):
    assert isinstance(run.model, torch.nn.Module)
    assert not run.model.training
    initial = dict(run.experiment.plan.build_model().module.named_parameters())
    assert any(not torch.equal(value, initial[name]) for name, value in run.model.named_parameters())


def test_where_all_share_one_model_each_client_has_it(run):
    (name, *_), shared = run.summary["test_per_client"], dict(run.model.named_parameters())
    own = dict(run.client_model(name).named_parameters())
    assert own.keys() == shared.keys()
    assert all(torch.equal(value, shared[name]) for name, value in own.items())
    with pytest.raises(InputError, match=r"^No client named 'nobody'\..* Known: "):
        run.client_model("nobody")


def test_predictions(run):
    shard = run.experiment.data.load(1)[0]
    pairs = pd.DataFrame({"user": shard.user_ids[:3], "item": shard.item_ids[:3]})
    answers = run.predict(pairs)
    assert answers["rating"].between(1, 5).all()
    own = pd.DataFrame({"user": ["a", "a", "b"], "item": ["x", "y", "x"], "rating": [5, 4, 3], "category": "all"})
    links = pd.DataFrame({"user": ["a"], "trusts": ["b"]})
    assert len(run.predict(pd.DataFrame({"user": ["b"], "item": ["y"]}), own, links)) == 1


def test_figures_and_report(run, tmp_path):
    assert all(isinstance(figure, go.Figure) for figure in [*run.figures(), run.plot("bytes")])
    assert run.report(tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_what_a_notebook_shows(run):
    shown = run._repr_html_()
    assert shown.startswith("<table>")
    for text in ("fedacs", "shops, 3 clients, seed 1", "baseline global_mean", "rmse on test, there"):
        assert text in shown
    assert repr(run).startswith("<fedgraft.Run recipe fedacs")


def test_a_run_without_out_is_gone_with_its_object():
    unkept = fedgraft.run("fedacs", data=SHOPS, **QUICK)
    folder = unkept.folder
    assert folder.is_dir()
    del unkept
    gc.collect()
    assert not folder.parent.exists()


@pytest.mark.parametrize(
    ("given", "section", "expected"),
    [
        ({"selector": "oort"}, "selector", {"name": "oort"}),
        ({"selector": {"target": 1.1}}, "selector", {"name": "fedacs", "target": 1.1}),
        ({"selector": {"name": "random", "clients": 2}}, "selector", {"name": "random", "clients": 2}),
        ({"overrides": {"selector.target": 1.2}, "selector": {"target": 1.1}}, "selector", {"target": 1.2}),
        ({"budget": {"bytes": "2MB"}}, "budget", {"bytes": 2_000_000}),
        ({"seed": 7}, "data", {"clients": 3}),
        ({"codec": {"name": "quantized", "bits": 4}}, "codec", {"name": "quantized", "bits": 4}),
    ],
)
def test_choices(monkeypatch, given, section, expected):
    seen = []
    monkeypatch.setattr(
        "fedgraft.interface.api._run_in_temporary_folder", lambda experiment, *_: seen.append(experiment)
    )
    fedgraft.run("fedacs", data=SHOPS, **given)
    assert expected.items() <= seen[0].recipe.sections[section].items()


def test_a_chain_of_codecs(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "fedgraft.interface.api._run_in_temporary_folder", lambda experiment, *_: seen.append(experiment)
    )
    fedgraft.run("fedacs", data=SHOPS, codec=("float16", {"name": "quantized", "bits": 4}))
    assert [part["name"] for part in seen[0].recipe.sections["codec"]] == ["float16", "quantized"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"round": 5}, r"^No argument named 'round'\. Did you mean 'rounds'\?"),
        ({"selecter": "oort"}, r"Did you mean 'selector'\?"),
        ({"selector": "ort"}, r"^No selector named 'ort'\. Did you mean 'oort'\?"),
        ({"selector": {"targett": 1}}, r"Did you mean 'target'\?"),
        ({"budget": "2MB"}, r'^budget must be given as \{"option": \.\.\.\}; got \'2MB\'\.'),
        ({"selector": 3}, r"^selector must be given as"),
        ({"data": 3}, r"^data must be given as"),
        ({"rounds": "many"}, r"^rounds must be a whole number"),
        ({"overrides": {"selectr.target": 1}}, r"Did you mean 'selector'\?"),
    ],
)
def test_mistakes_are_named(given, message):
    with pytest.raises(InputError, match=message):
        fedgraft.run("fedacs", **{"data": SHOPS, **given})


def test_an_experiment_can_be_changed_and_run():
    ready = jobs.load("fedacs", TINY)
    changed = fedgraft.run(ready, selector="random", progress=False)
    assert changed.summary["rounds"] == 2
    assert changed.experiment.recipe.sections["selector"]["name"] == "random"


# --- own tables -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own") / "run"
    return fedgraft.run("fedacs", data={"ratings": ratings(), "trust": trust(), "clients": 2}, out=folder, **QUICK)


def test_own_tables_are_stored_with_the_run(stored):
    assert set(pd.read_parquet(stored.folder / "data" / "ratings.parquet")) == {"user", "item", "rating", "category"}
    assert len(pd.read_parquet(stored.folder / "data" / "trust.parquet")) == 20
    opened = fedgraft.open(stored.folder)
    assert opened.summary == stored.summary
    assert len(opened.predict(pd.DataFrame({"user": ["u1"], "item": [3]}))) == 1
    assert fedgraft.resume(stored.folder, progress=False).summary["digest"] == stored.summary["digest"]


def test_stored_tables_train_as_the_ones_that_were_given(stored):
    from fedgraft.experiment.running.runner import execute

    data = {"data.name": "table", "data.ratings": ratings(), "data.trust": trust(), "data.clients": 2}
    changes = {"rounds": 2, "runtime.workers": 0, "baselines": ["global_mean"], **data}
    assert execute(jobs.load("fedacs", changes))["digest"] == stored.summary["digest"]


def test_a_client_column_says_who_holds_what():
    named = fedgraft.run("fedacs", data=ratings(named_clients=True), **QUICK)
    assert named.summary["clients"] == 4
    assert set(named.predict(pd.DataFrame({"user": ["u1"], "item": [2]}))["client"]) == {"part 2"}


def chains():
    """Paths whose class is told by an attribute of their nodes and by nothing else."""
    rows, nodes, edges = [], [], []
    for number in range(40):
        rows.append({"graph": number, "label": "ab"[number % 2], "client": "xy"[number // 20], "owner": "secret"})
        nodes += [{"graph": number, "node": k, "weight": float(number % 2), "size": float(k)} for k in range(3)]
        edges += [{"graph": number, "source": node, "target": node + 1} for node in range(2)]
    return {name: pd.DataFrame(each) for name, each in (("graphs", rows), ("nodes", nodes), ("edges", edges))}


GRAPHS = {"rounds": 3, "progress": False, "overrides": {"runtime.workers": 0, "baselines": []}}


@pytest.mark.parametrize("attributes", [None, ["weight"]])
def test_own_graphs_are_stored_with_their_attributes(attributes, tmp_path):
    data = {"name": "graphs", **chains(), **({} if attributes is None else {"attributes": attributes})}
    run = fedgraft.run("cefgl", data=data, out=tmp_path / "run", **GRAPHS)
    stored = {name: set(pd.read_parquet(run.folder / "data" / f"{name}.parquet")) for name in ("graphs", "nodes")}
    assert stored == {
        "graphs": {"graph", "label", "client"},
        "nodes": {"graph", "node", *(attributes or ["weight", "size"])},
    }
    given = {**GRAPHS["overrides"], "rounds": 3, **{f"data.{name}": value for name, value in data.items()}}
    assert execute(jobs.load("cefgl", given))["digest"] == run.summary["digest"]


def test_graphs_of_pyg_are_stored_as_tables(tmp_path):
    pyg = pytest.importorskip("torch_geometric.data")
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graphs = [pyg.Data(x=torch.full((3, 2), k % 2.0), edge_index=edge_index, y=torch.tensor(k % 2)) for k in range(30)]
    run = fedgraft.run("cefgl", data={"name": "graphs", "graphs": graphs, "clients": 2}, out=tmp_path / "run", **GRAPHS)
    assert len(pd.read_parquet(run.folder / "data" / "nodes.parquet")) == 90
    assert fedgraft.open(run.folder).summary == run.summary
    assert fedgraft.resume(run.folder, progress=False).summary["digest"] == run.summary["digest"]


def test_ids_of_several_types_are_stored_as_their_text(tmp_path):
    table = ratings()
    table["item"] = [item if item % 2 else str(item) for item in table["item"]]
    mixed = fedgraft.run("fedacs", data={"ratings": table, "clients": 2}, out=tmp_path / "run", **QUICK)
    plain = fedgraft.run("fedacs", data={"ratings": ratings(), "clients": 2}, **QUICK)
    assert mixed.summary["digest"] == plain.summary["digest"]


def test_a_file_is_read_where_it_lies(tmp_path):
    ratings().to_csv(tmp_path / "ratings.csv", index=False)
    from_file = fedgraft.run("fedacs", data={"ratings": str(tmp_path / "ratings.csv"), "clients": 2}, **QUICK)
    assert from_file.summary["dataset"] == "table"
    with pytest.raises(InputError, match=r"no file .*rating\.csv.* Did you mean .*ratings\.csv"):
        fedgraft.run("fedacs", data=tmp_path / "rating.csv", **QUICK)


def test_what_is_wrong_with_a_table_is_told_of_the_table(tmp_path):
    table = ratings().rename(columns={"rating": "Rating"})
    with pytest.raises(InputError, match=r"^data\.ratings: no column 'rating'.* Did you mean 'Rating'\?"):
        fedgraft.run("fedacs", data=table, out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


def test_a_run_that_cannot_begin_leaves_nothing_behind(tmp_path):
    for folder in (tmp_path / "new" / "run", tmp_path):
        with pytest.raises(fedgraft.BudgetError):
            fedgraft.run("fedacs", data={"ratings": ratings(), "clients": 2}, out=folder, budget={"bytes": 10}, **QUICK)
        assert list(tmp_path.iterdir()) == []
    assert tmp_path.is_dir(), "an empty folder that was there stays"


@pytest.mark.parametrize("where", ["runtimes.workers.in_process.InProcess", "experiment.running.loops.loop_of"])
def test_nor_does_one_that_breaks_before_its_first_checkpoint(tmp_path, monkeypatch, where):
    def broken(*_):
        raise RuntimeError("can't allocate memory")

    monkeypatch.setattr(f"fedgraft.{where}", broken)
    with pytest.raises(fedgraft.MachineError, match=r"out of memory \(can't allocate memory\)\.$"):
        fedgraft.run("fedacs", data=SHOPS, out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


def test_an_interruption_says_how_to_go_on(tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise fedgraft.Interrupted("interrupted after round 1")

    monkeypatch.setattr("fedgraft.experiment.running.runner.execute", stopped)
    with pytest.raises(fedgraft.Interrupted, match=r"after round 1; go on with fedgraft\.resume\('.*run'\)"):
        fedgraft.run("fedacs", data=SHOPS, out=tmp_path / "run", **QUICK)
    with pytest.raises(fedgraft.Interrupted, match=r"after round 1$"):
        fedgraft.run("fedacs", data=SHOPS, **QUICK)


def test_nothing_of_anybody_is_overwritten(stored, tmp_path):
    before = (stored.folder / "data" / "ratings.parquet").read_bytes()
    with pytest.raises(InputError, match="holds a run already"):
        fedgraft.run("fedacs", data=ratings(), out=stored.folder, **QUICK)
    assert (stored.folder / "data" / "ratings.parquet").read_bytes() == before
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "ratings.parquet").write_text("mine")
    with pytest.raises(InputError, match="is not empty: it holds 'data'"):
        fedgraft.run("fedacs", data={"ratings": ratings(), "clients": 2}, out=tmp_path, **QUICK)
    assert [path.read_text() for path in tmp_path.rglob("*.parquet")] == ["mine"]


# --- several runs -----------------------------------------------------------------------------------------------------


def test_compare_and_report_several(run, tmp_path):
    other = fedgraft.run("fedacs", data=SHOPS, selector="random", **QUICK)
    table = fedgraft.compare([run, other])
    assert list(table.index) == ["fedacs", "fedacs-random"]
    assert {"test_at_best_validation", "bytes_to_target", "baseline_global_mean"} <= set(table)
    assert "fedacs-random" in run.report(tmp_path / "both.html", other, target="rmse=2").read_text()
    with pytest.raises(InputError, match="Give a list"):
        fedgraft.compare(run)


# --- scripts ----------------------------------------------------------------------------------------------------------

SCRIPT = """
import fedgraft
print("started")
run = fedgraft.run("fedacs", data={data}, rounds=1, runtime={{"workers": 2}}, baselines=[])
print(run.summary["rounds"])
"""
OWN_CODEC = """
from dataclasses import dataclass
from fedgraft.methods.codecs.identity import Identity
@dataclass(frozen=True)
class Mine(Identity):
    "Like its parent."
"""


def script(folder, text):
    (folder / "script.py").write_text(text)
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.mark.slow
def test_a_script_without_a_guard_runs_once(tmp_path):
    done = script(tmp_path, SCRIPT.format(data=SHOPS))
    assert done.stdout.split() == ["started", "1"], done.stderr
    assert "round 1/1" in done.stderr  # plain lines, where there is no terminal


@pytest.mark.slow
def test_a_script_whose_own_class_clients_need_is_told_what_to_do(tmp_path):
    own = (
        SCRIPT.replace('"workers": 2', '"workers": 1')
        .replace("rounds=1", 'rounds=1, codec="__main__:Mine"')
        .format(data=SHOPS)
    )
    refused = script(tmp_path, OWN_CODEC + own)
    assert "bootstrapping" not in refused.stderr, "as multiprocessing has it, once for each worker"
    assert refused.returncode == 1
    assert "belong in a module of their own" in refused.stderr
    guarded = 'if __name__ == "__main__":\n' + "".join(f"    {line}\n" for line in own.splitlines())
    done = script(tmp_path, OWN_CODEC + guarded)
    assert done.stdout.split() == ["started", "1"], done.stderr
