"""A checkpoint knows whose it is and what it is of: what is not its own run's, or not a state, is one clear error."""

import json
import logging
import shutil

import numpy as np
import pytest
from typing_extensions import TypeAliasType

from fedgraft.engine.server.run_state import POINT
from fedgraft.errors import InputError, Interrupted
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage import run_folder
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.experiment.storage.run_folder import FORMAT, RunFolder
from fedgraft.experiment.storage.stored_state import _misfit
from fedgraft.reports.pages.html_report import write_report
from fedgraft.reports.stored.stored_runs import StoredRun
from helpers.compared_runs import compare
from helpers.node_runs import SMALL
from helpers.stored_runs import QUICK, Stops, repack, stopped, unpacked
from helpers.toy_runs import EVERYTHING, toy


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run of the toy task with every kind of memory, after two of its rounds; not to be changed."""
    return stopped(tmp_path_factory.mktemp("begun") / "run", toy(**{**EVERYTHING, **QUICK}))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """A run in which rows of nodes travel, after two of its rounds; not to be changed."""
    changes = {**SMALL, "rounds": 4, "checkpoint.every_seconds": 0, "baselines": []}
    return stopped(tmp_path_factory.mktemp("nodes") / "run", load("fedais", changes))


@pytest.fixture
def run(begun, tmp_path):
    """A copy of the first, to be damaged."""
    return shutil.copytree(begun, tmp_path / "run")


# --- whose it is ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_of_another_run_is_refused(run, tmp_path):
    for name, changes in (("seed", {"seed": 2}), ("rate", {"training": {"learning_rate": 0.5, "optimizer": "sgd"}})):
        other = stopped(tmp_path / name, toy(**{**EVERYTHING, **QUICK, **changes}))
        for part in ("checkpoint", "rounds.jsonl", "ledger.jsonl"):
            if part == "checkpoint":
                shutil.rmtree(run / part)
                shutil.copytree(other / part, run / part)
            else:
                shutil.copy(other / part, run / part)
        with pytest.raises(InputError, match=r"origin\.json is damaged, or the checkpoint is of another run"):
            resume(run)


@pytest.mark.parametrize("how", ["missing", "{}", "changed"])
def test_what_a_run_began_with_must_be_there(run, how):
    path, began = run / "origin.json", (run / "origin.json").read_text()
    if how == "missing":
        path.unlink()
    else:
        path.write_text("{}\n" if how == "{}" else began.replace("0.05", "0.5"))
    experiment = run / "experiment.toml"
    experiment.write_text(experiment.read_text().replace("learning_rate = 0.05", "learning_rate = 0.5"))
    with pytest.raises(InputError, match=r"origin\.json is (missing|damaged)"):
        resume(run)


@pytest.mark.parametrize("how", ["missing", "{}", "[]"])
def test_also_of_one_without_a_checkpoint(run, how):
    shutil.rmtree(run / "checkpoint")
    for name in ("rounds.jsonl", "ledger.jsonl"):
        (run / name).unlink()
    (run / "checkpoint").mkdir()
    if how == "missing":
        (run / "origin.json").unlink()
    else:
        (run / "origin.json").write_text(how)
    with pytest.raises(InputError, match=r"origin\.json (cannot be read|is missing|is damaged)"):
        resume(run)


@pytest.mark.parametrize("name", ["rounds.jsonl", "ledger.jsonl"])
def test_a_digit_that_is_another_is_found_in_what_the_checkpoint_counts(run, name):
    path = run / name
    content = path.read_text()
    place = next(place for place, character in enumerate(content) if character == "1")
    path.write_text(content[:place] + "2" + content[place + 1 :])
    with pytest.raises(InputError, match=rf"{name} is damaged: its first {len(content)} bytes are not those that were"):
        resume(run)


@pytest.mark.parametrize("name", ["rounds.jsonl", "ledger.jsonl"])
def test_readers_of_a_finished_run_find_it_too(run, tmp_path, name):
    resume(run)
    for use in (StoredRun, lambda folder: compare([folder]), lambda folder: report(folder, tmp_path)):
        use(run)
    path = run / name
    content = path.read_bytes()
    for changed in (content.replace(b"1", b"2", 1), content[:-1], content + b"\n", b""):
        path.write_bytes(changed)
        for use in (StoredRun, lambda folder: compare([folder]), lambda folder: report(folder, tmp_path)):
            with pytest.raises(InputError, match=rf"{name} is damaged"):
                use(run)
    shutil.rmtree(run / "checkpoint")
    with pytest.raises(InputError, match=rf"{name} is damaged"):
        _ = StoredRun(run).rounds, StoredRun(run).ledger


def report(folder, tmp_path):
    return write_report([folder], tmp_path / "report.html")


def test_hashes_are_of_all_bytes_however_often_a_run_was_taken_up(run):
    resume(run)
    for name, counted in unpacked(run)["rows"].items():
        tally = run_folder.Tally.of(run / name)
        assert (tally.size, tally.hash) == (counted["bytes"], counted["hash"])


# --- by which version -------------------------------------------------------------------------------------------------


def change(folder, **parts):
    repack(folder, {**unpacked(folder), **parts})


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("number", [FORMAT - 1, FORMAT + 4])
def test_a_run_of_another_format_is_refused_in_one_line_and_nothing_changes(run, tmp_path, finished, number):
    if finished:
        resume(run)
    repack(run, {"format": number, "novel": [1, 2]})
    (run / "summary.json").write_text("{}")
    (run / "experiment.toml").write_text("of = 'another kind'\n")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    told = f"state.bin has format {number}, and this version of fedgraft reads format {FORMAT}: train the run again"
    uses = resume, StoredRun, load_run, lambda run: compare([run]), lambda run: report(run, tmp_path)
    for use in uses:
        with pytest.raises(InputError, match=told) as error:
            use(run)
        assert "\n" not in str(error.value)
    assert {path: path.read_bytes() for path in before} == before


def load_run(folder):
    return FinishedRun(RunFolder.open(folder))


def test_other_versions_are_told_and_noted(run, begun, tmp_path, caplog):
    whole = execute(toy(**{**EVERYTHING, **QUICK}))
    versions = unpacked(run)["versions"]
    assert versions.keys() == {"fedgraft", "torch", "numpy", "python"}
    change(run, versions={**versions, "torch": "2.0.1"})
    before = json.loads((run / "environment.json").read_text())
    with caplog.at_level(logging.WARNING), pytest.raises(Interrupted):
        resume(run, Stops(3))
    assert caplog.messages == [
        f"{run} was stored with torch 2.0.1 and goes on with torch {versions['torch']}: its results may differ from "
        "those of a run with one version throughout."
    ]
    assert json.loads((run / "environment.json").read_text()) == {**before, "resumed": [versions]}
    caplog.clear()
    assert resume(run)["digest"] == whole["digest"]
    assert caplog.messages == [], "the last checkpoint is of the versions that are here"
    assert json.loads((run / "environment.json").read_text())["resumed"] == [versions]
    assert report(run, tmp_path).stat().st_size
    assert resume(shutil.copytree(begun, tmp_path / "same"))["digest"] == whole["digest"]
    assert "resumed" not in json.loads((tmp_path / "same" / "environment.json").read_text())


# --- what it is -------------------------------------------------------------------------------------------------------

ARRAY = np.zeros((2, 3))


def curve(values):
    """Columns of a curve that all hold the same numbers."""
    return {name: values.astype(code) for name, code in POINT.items()}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"format": "2"}, "format is '2', not a whole number"),
        ({"format": True}, "format is True"),
        ({"versions": []}, r"versions is \[\], not a table"),
        ({"versions": {"torch": 2}}, "versions.torch is 2, not a text"),
        ({"origin": None}, "origin is None, not a text"),
        ({"rows": {}}, "rows.rounds.jsonl is no table"),
        ({"memories": {"0": "../../id_rsa"}}, r"memories: client '0' of 5 has the file '\.\./\.\./id_rsa'"),
        ({"memories": {"9": "client-9-" + 32 * "0" + ".bin"}}, "memories: client '9' of 5"),
        ({"memories": {"1": "client-0-" + 32 * "0" + ".bin"}}, "memories: client '1' of 5"),
        ({"memories": {"0": "client-0-" + 32 * "0" + ".bin"}}, "bin cannot be read"),
        ({"memories": [1]}, "memories is"),
        ({"state": None}, "state is None, not a table"),
    ],
)
def test_parts_of_the_file_are_checked(run, part, message):
    change(run, **part)
    with pytest.raises(InputError, match=message):
        resume(run)


@pytest.mark.parametrize("part", ["versions", "origin", "rows", "memories", "state"])
def test_a_part_that_is_missing_is_named(run, part):
    tree = unpacked(run)
    del tree[part]
    repack(run, tree)
    with pytest.raises(InputError, match=rf"state\.bin is damaged: it has no {part}"):
        resume(run)


def test_no_field_of_a_state_may_be_missing(run):
    whole = unpacked(run)
    for name in whole["state"]:
        state = {key: value for key, value in whole["state"].items() if key != name}
        repack(run, {**whole, "state": state})
        with pytest.raises(InputError, match=rf"state\.bin is damaged: state has no {name}\.$"):
            resume(run)
    repack(run, {**whole, "state": {**whole["state"], "novel": 1}})
    with pytest.raises(InputError, match="state has novel, which this version does not know"):
        resume(run)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("round", "4", "state.round is '4', not a whole number >= 0"),
        ("round", -5, "state.round is -5"),
        ("round", 1.0, "state.round is 1.0"),
        ("round", 2**64 - 1, "state.round is 18446744073709551615"),
        ("chosen", [1], "state.chosen is not of 5 clients"),
        ("chosen", [], "state.chosen is not of 5 clients"),
        ("chosen", [1, 2, 3, 4, 0.5], r"state.chosen\[4\] is 0.5"),
        ("cohort", [0, 5], "state.cohort is not among 5 clients"),
        ("profiles", [], "state.profiles is empty"),
        ("profiles", [{"examples": float("inf")}] * 5, "client 0 has"),
        ("profiles", [{"examples": -1.0}] * 5, "client 0 has"),
        ("profiles", "abcde", "state.profiles is 'abcde', not a list"),
        ("seconds", float("nan"), "state.seconds is nan"),
        ("seconds", None, "state.seconds is None, not a number"),
        ("broadcast.held", {"five": 1}, "state.broadcast.held names five among 5 clients"),
        ("broadcast.held", {"0": -1}, "state.broadcast.held.0 is -1"),
        ("broadcast", {}, "state.broadcast has no version, downlink, published, held, kept"),
        ("broadcast.version", -1, "state.broadcast.version is -1"),
        ("scores", {"9": {}}, "state.scores names 9"),
        ("scores", {"0": {}}, "state.scores of client 0 are of nothing"),
        ("bytes", {}, "state.bytes has only"),
        ("failures", {}, "state.failures has only"),
        ("curve", [], r"state.curve is \[\], not a table"),
        ("curve", {}, "state.curve has no round, bytes"),
        ("curve", curve(np.zeros(0)), "state.curve is empty"),
        ("curve", curve(np.zeros(2)[:, None]), "state.curve has columns of several lengths"),
        ("curve", {**curve(np.zeros(2)), "test": np.zeros(1)}, "state.curve has columns of several lengths"),
        ("curve", {**curve(np.zeros(2)), "flops": np.zeros(2)}, r"state.curve.flops is float64 \[2\]"),
        ("curve", curve(np.full(1, 7.0)), r"state.curve\[0\] is of round 7 of 2"),
        ("curve", curve(np.full(1, 1e19)), r"state.curve\[0\].round is 10000000000000000000"),
        ("losses", {"test": []}, "state.losses of test are 0"),
        ("losses", {"other": [1.0, 2.0]}, "state.losses of other"),
        ("best", {"round": 1}, "state.best has no choice, validation, test, sums, scores, models"),
        ("finished", 1, "state.finished is 1, not a text"),
        ("sharing", None, "state.sharing is None, not a table"),
        ("sharing", {}, "state.sharing has no "),
        ("selector", [1, 2], r"state.selector is \[1, 2\]"),
        ("halos", [{}] * 5, "state.halos are of another task"),
        ("halo_store", {"time": 1}, "state.halo_store is of another task"),
        ("best", {}, "state.best has no round"),
        ("broadcast.published", {"0": {}}, "state.broadcast.published.0 has no version, arrays"),
        ("broadcast.published", {"0": {"version": 1, "arrays": {"x": ARRAY}}}, "state.broadcast.published.0: arrays"),
        ("broadcast.downlink", {"0": 3}, "state.broadcast.downlink.0 is 3"),
        ("broadcast.downlink", {"x": {"memory": {}, "inner": None}}, "state.broadcast.downlink.x"),
    ],
)
def test_a_state_of_wrong_types_and_values_is_refused(run, field, value, message):
    tree = unpacked(run)
    outer, _, inner = field.partition(".")
    changed = {**tree["state"][outer], inner: value} if inner else value
    repack(run, {**tree, "state": {**tree["state"], outer: changed}})
    with pytest.raises(InputError, match=rf"^{run}/checkpoint/state\.bin is damaged: .*{message}"):
        resume(run)


def test_models_of_another_shape_are_refused(run):
    tree = unpacked(run)
    for part in ("sharing", "best"):
        state = json_like(tree["state"])
        models = state["sharing"]["model"] if part == "sharing" else state["best"]["models"]["0"]
        name = next(iter(models))
        models[name] = np.zeros(99, np.float32)
        repack(run, {**tree, "state": state})
        with pytest.raises(InputError, match=rf"state\.{part}.*array '{name}' is float32 \(99,\)"):
            resume(run)


def json_like(tree):
    """A copy of dicts and lists; arrays are shared."""
    if isinstance(tree, dict):
        return {key: json_like(value) for key, value in tree.items()}
    return [json_like(value) for value in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("halos", [], "state.halos are of another task"),
        ("owner", np.zeros(3, np.int64), "client 1 needs nodes of 3 clients|needs node"),
        ("owner", np.zeros(3, np.float32), r"owner is float32 \[3\]"),
        ("rows", [], "state.halo_store.rows is"),
        ("rows", [np.zeros((1, 1), np.float32)] * 2, "state.halo_store.rows is"),
        ("seen", [np.zeros(1, np.int64)] * 2, "state.halo_store.seen is"),
        ("time", -1, "state.halo_store.time is -1"),
    ],
)
def test_rows_of_nodes_are_checked(nodes, tmp_path, part, value, message):
    run = shutil.copytree(nodes, tmp_path / "run")
    tree = unpacked(run)
    state = json_like(tree["state"])
    if part == "halos":
        state["halos"] = value
    elif part == "owner":
        state["halos"][1]["owner"] = value
    else:
        state["halo_store"][part] = value
    repack(run, {**tree, "state": state})
    with pytest.raises(InputError, match=rf"state\.bin is damaged: .*({message})"):
        resume(run)


def test_what_was_not_changed_goes_on(nodes, tmp_path):
    run = shutil.copytree(nodes, tmp_path / "run")
    repack(run, unpacked(run))
    changes = {**SMALL, "rounds": 4, "baselines": []}
    assert resume(run)["digest"] == execute(load("fedais", changes))["digest"]
    assert RunFolder.open(run).load()[0].round == 4


def test_arrays_are_told_where_numpy_names_them_by_an_alias():
    """From NumPy 2.5 on NDArray is made by a `type` statement, which no value is an instance of."""
    alias = TypeAliasType("Named", np.ndarray[tuple[int, ...], np.dtype[np.int64]])
    assert _misfit(np.zeros(2, np.int64), alias, "own") == ""
    assert _misfit({"a": 1}, alias, "own") == "own is no array"
