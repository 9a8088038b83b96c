"""A method whose clients are federations of one, beside the method itself: cells, settings, and their page."""

import dataclasses

import pytest

from fedgraft.errors import InputError
from fedgraft.reports.studies import running, study_files
from fedgraft.reports.studies.layouts import tables
from fedgraft.reports.studies.study import Study

PANEL = {"title": "Alone", "data": ["molecules"], "partitions": [""], "clients": [2], "paper": {}}
BLOCKS = {**PANEL, "data": ["blocks"], "runs": [["", "one"]], "baselines": []}
MADE = Study(
    name="made",
    title="",
    recipe="cefgl",
    reference="cefgl",
    layout="paired",
    common={"rounds": 2, "data.graphs": 20},
    methods={"cefgl": {"label": "CEFGL"}, "one": {"label": "CEFGL with K = 1", "alone": True}},
    panels=({**PANEL, "runs": [["", "cefgl"], ["", "one"]], "baselines": ["local_only"]},),
)


def quiet(line):
    """Say nothing."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The study, run in this process, and its folder."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setattr(running, "in_processes", in_this_process)
        running.run(MADE, folder, folder / "out", 1, 1, quiet)
    return folder / "out", {cell.method: result for cell, result in running.results(MADE, folder / "out", 1).items()}


def in_this_process(calls, jobs, write):
    for call in calls:
        call.run(write)
        yield call


def test_it_is_the_method_with_one_client_at_a_time(found):
    _, runs = found
    one = runs["one"]
    assert one["test"] == one["test_at_best_validation"] == one["baselines"]["local_only"]["test"]
    assert one["validation"] == one["baselines"]["local_only"]["validation"]
    assert one["bytes"] == {"total": 0}
    assert {name: one[name] for name in ("metric", "better", "rounds")} == {
        name: runs["cefgl"][name] for name in ("metric", "better", "rounds")
    }
    assert one["settings"] == {**runs["cefgl"]["settings"], "alone": True}


def test_a_cell_that_was_federated_is_another_one(found):
    folder, _ = found
    changed = dataclasses.replace(MADE, methods={**MADE.methods, "one": {"label": ""}})
    assert [cell.method for cell in running.results(changed, folder, 1)] == ["cefgl"]


@pytest.mark.parametrize("layout", ["paired", "accuracy"])
def test_its_row_stands_in_the_tables(found, layout):
    folder, _ = found
    text = tables(dataclasses.replace(MADE, layout=layout), running.results(MADE, folder, 1), 1)
    assert "| CEFGL with K = 1" in text


def test_a_sample_of_clients_cannot_be_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "in_processes", in_this_process)
    common = {"rounds": 1, "data.nodes": 60, "evaluation.sample": 1, "selector.clients": 2}
    sampled = dataclasses.replace(MADE, recipe="fedais", common=common, panels=(BLOCKS,))
    with pytest.raises(InputError, match=r"Each client alone cannot be scored where evaluation\.sample leaves"):
        running.run(sampled, tmp_path, tmp_path / "out", 1, 1, quiet)


def test_alone_is_true_or_false(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('recipe="cefgl"\nreference="a"\n[methods.a]\nalone="yes"\n[[panels]]\ndata=["molecules"]\n')
    with pytest.raises(InputError, match=r"alone of methods\.a must be true or false; got 'yes'\."):
        study_files.read_file(str(path))
