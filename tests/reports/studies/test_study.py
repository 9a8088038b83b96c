"""A study on a tiny Ciao: every cell once, paired, resumable; and its page."""

import dataclasses
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from fedgraft.errors import InputError, MachineError
from fedgraft.experiment import job as jobs
from fedgraft.reports.studies import running, study, study_files
from fedgraft.reports.studies.layouts import tables, write_page
from fedgraft.reports.studies.processes import Call, Write
from fedgraft.reports.studies.study import Cell, Split, StoredResults, Study, panel_cells

TINY = Study(
    name="tiny",
    title="A tiny study",
    recipe="fedacs",
    reference="all",
    common={"rounds": 3, "task.folds": 2, "model.layers": 1},
    methods={
        "fedacs": {"label": "FedACS"},
        "all": {"label": "full participation", "changes": {"selector.name": "all"}},
    },
    panels=(
        {
            "title": "Default",
            "data": ["ciao"],
            "partitions": ["average"],
            "clients": [3],
            "runs": [["gcn", "all"], ["gcn", "fedacs"]],
            "baselines": ["client_biases"],
            "paper": {"ciao": {"gcn-all": [1.053, 851], "gcn-fedacs": [1.039, 568]}},
        },
    ),
)


def quiet(line: str) -> None:
    """Say nothing."""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder for data that are prepared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Ciao of forty users and six categories."""
    g = np.random.default_rng(0)
    rows = [
        [1 + u, 1 + int(i), 1 + int(i) % 6, 1 + int(g.integers(5)), 1]
        for u in range(40)
        for i in g.choice(60, 12, False)
    ]
    links = [[1 + u, 1 + (u + step) % 40] for u in range(40) for step in (1, 3)]
    folder = tmp_path_factory.mktemp("data")
    (folder / "ciao").mkdir()
    scipy.io.savemat(folder / "ciao" / "rating.mat", {"rating": np.array(rows)})
    scipy.io.savemat(folder / "ciao" / "trustnetwork.mat", {"trustnetwork": np.array(links)})
    return folder


@pytest.fixture(scope="module")
def played(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study, run once in a process of its own; not to be changed."""
    folder, said = tmp_path_factory.mktemp("played") / "out", []
    running.run(TINY, data, folder, seeds=1, jobs=1, say=said.append)
    assert said[0] == "0 of 2 cells are done; 2 to run with 1 jobs."
    return folder


@pytest.fixture
def out(played: Path, tmp_path: Path) -> Path:
    """A copy of the study that was run."""
    return shutil.copytree(played, tmp_path / "out")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are run in this process: others take seconds to start."""

    def run(calls: Sequence[Call], jobs: int, write: Write) -> Iterator[Call]:
        for call in calls:
            call.run(write)
            yield call

    monkeypatch.setattr(running, "in_processes", run)


@pytest.mark.usefixtures("here")
def test_runs_every_cell_once_and_only_what_is_missing(data, out, tmp_path):
    found = running.results(TINY, out, 1)
    assert [cell.key for cell in found] == ["ciao-average-3-gcn-all-seed1", "ciao-average-3-gcn-fedacs-seed1"]
    assert all(len(result["curve"]) == 4 for result in found.values())
    (out / "cells" / "ciao-average-3-gcn-fedacs-seed1.json").unlink()
    running.run(TINY, data, out, seeds=1, jobs=1, say=quiet)
    again = running.results(TINY, out, 1)
    assert [result["digest"] for result in again.values()] == [result["digest"] for result in found.values()]
    said: list[str] = []
    assert StoredResults(out).pack() == 3
    running.run(TINY, data, out, seeds=1, jobs=1, say=said.append)
    assert said == ["2 of 2 cells are done; 0 to run with 1 jobs."]
    assert list(running.results(TINY, out, 1).items()) == list(again.items())
    text = tables(TINY, again, 1)
    assert "| FedACS (GCN) |" in text
    assert "67%" in text  # 568 of 851 KB, the paper's
    write_page(TINY, again, 1, tmp_path / "page.md")
    page = tmp_path / "page.md"
    page.write_text(page.read_text().replace("# A tiny study", "# A tiny study\n\nWhat it shows."))
    write_page(TINY, again, 1, page)
    assert page.read_text().count("| FedACS (GCN) |") == text.count("| FedACS (GCN) |")
    assert "What it shows." in page.read_text()


@pytest.mark.usefixtures("here")
def test_runs_a_cell_again_whose_settings_have_changed(data, out):
    said: list[str] = []
    before = running.results(TINY, out, 1)
    methods = {**TINY.methods, "all": {"label": "", "changes": {"selector.name": "all", "training.epochs": 2}}}
    changed = dataclasses.replace(TINY, methods=methods)
    assert [cell.method for cell in running.results(changed, out, 1)] == ["fedacs"]
    running.run(changed, data, out, 1, 1, said.append)
    assert "1 of 2 cells are done; 1 to run with 1 jobs." in said
    assert "1 of these were done with other settings than they have now, such as ciao-average-3-gcn-all-seed1." in said
    after = running.results(changed, out, 1)
    assert [a["digest"] == b["digest"] for a, b in zip(before.values(), after.values(), strict=True)] == [False, True]


def test_takes_results_of_before_settings_were_kept(out):
    for file in (out / "cells").iterdir():
        content = json.loads(file.read_text())
        del content["settings"]
        file.write_text(json.dumps(content))
    assert len(running.results(TINY, out, 1)) == len(TINY.cells(1))


def test_takes_results_that_say_options_by_earlier_names(out):
    path = out / "cells" / "ciao-average-3-gcn-fedacs-seed1.json"
    content = json.loads(path.read_text())
    decay = content["settings"].pop("evaluation")["averaging"]
    content["settings"]["sharing"]["averaging"] = decay
    path.write_text(json.dumps(content))
    assert len(running.results(TINY, out, 1)) == len(TINY.cells(1))
    content["settings"]["sharing"]["averaging"] = decay / 2
    path.write_text(json.dumps(content))
    assert len(running.results(TINY, out, 1)) == len(TINY.cells(1)) - 1


@pytest.mark.usefixtures("here")
def test_runs_only_cells_that_match(data, tmp_path):
    running.run(TINY, data, tmp_path, 2, 1, quiet, match="*-all-seed2")
    assert [cell.key for cell in running.results(TINY, tmp_path, 2)] == ["ciao-average-3-gcn-all-seed2"]
    with pytest.raises(InputError, match=r"--match 'none\*' fits none of 2 cells, such as ciao-average-3-gcn-all-"):
        running.run(TINY, data, tmp_path, 1, 1, quiet, match="none*")


@pytest.mark.usefixtures("here")
def test_baselines_that_train_know_what_the_data_are_like(tmp_path):
    """The width of features, and that they are sparse, are known only from the data."""
    panel = {**TINY.panels[0], "data": ["blocks"], "partitions": ["iid"], "runs": [["sage", "fedlocal"]]}
    made = dataclasses.replace(
        TINY,
        recipe="fedais",
        common={"rounds": 1, "selector.clients": 2, "data.nodes": 60, "data.features": 9, "data.sparse": True},
        methods={"fedlocal": {"label": "", "recipe": "fedlocal"}},
        panels=({**panel, "baselines": ["local_only", "centralised"]},),
    )
    running.run(made, tmp_path / "data", tmp_path / "out", 1, 1, quiet)
    (found,) = running.results(made, tmp_path / "out", 1).values()
    assert found["baselines"].keys() == {"local_only", "centralised"}


@pytest.mark.usefixtures("here")
def test_methods_with_other_tasks_are_given_data_of_their_own(tmp_path):
    """Clients' data are prepared once for all methods with one task; one that needs more of a task has its own."""
    graphs = dataclasses.replace(
        TINY,
        recipe="cefgl",
        common={"rounds": 2, "data.graphs": 20},
        methods={
            "fedavg": {"label": "", "changes": {"sharing.name": "fedavg"}},
            "fedstar": {"label": "", "changes": {"sharing.name": "fedstar"}},
        },
        panels=({**TINY.panels[0], "data": ["molecules"], "partitions": [""], "clients": [2], "baselines": []},),
    )
    runs = [["gin", "fedavg"], ["gcn", "fedavg"], ["gin", "fedstar"], ["sage", "fedavg"]]
    alone = []
    for run in runs:
        one = dataclasses.replace(graphs, panels=({**graphs.panels[0], "runs": [run]},))
        folder = tmp_path / "-".join(run)
        running.run(one, tmp_path / "data", folder, 1, 1, quiet)
        alone += [result["digest"] for result in running.results(one, folder, 1).values()]
    together = dataclasses.replace(graphs, panels=({**graphs.panels[0], "runs": runs},))
    running.run(together, tmp_path / "data", tmp_path / "together", 1, 1, quiet)
    found = running.results(together, tmp_path / "together", 1)
    assert [result["digest"] for result in found.values()] == alone


PARENT = """
import multiprocessing as mp, os, time
from concurrent.futures import ProcessPoolExecutor
from fedgraft.reports.studies.processes import begin_process

pool = ProcessPoolExecutor(1, mp_context=mp.get_context("spawn"), initializer=begin_process)
pool.submit(os.getpid).result()
pool.submit(time.sleep, 600)
print("at work", flush=True)
time.sleep(600)
"""


def test_a_study_that_is_killed_leaves_no_process_at_work():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == "at work\n"
        parent.kill()
        ended, _, _ = select.select([parent.stdout], [], [], 60)
        assert ended, "a process has it open still"
        assert parent.stdout.read() == ""


def die(*call):
    """Take the place of a split's run and end like a process that the system kills."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_process_that_is_lost_is_one_clear_error(data, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_run_split", die)
    with pytest.raises(MachineError, match=r"^The process of ciao-average-3, seed [12], was lost; .* fewer --jobs\.$"):
        running.run(TINY, data, tmp_path / "out", seeds=2, jobs=2, say=print)


def test_errors(tmp_path):
    with pytest.raises(InputError, match=r"No study named 'fedac'\. Did you mean 'fedacs'"):
        study.load("fedac")
    with pytest.raises(InputError, match="holds no folder 'ciao'"):
        running.run(TINY, tmp_path, tmp_path / "out", seeds=1, jobs=1, say=print)
    (tmp_path / "page.md").write_text("no marks")
    with pytest.raises(InputError, match="lacks the marks"):
        write_page(TINY, {}, 1, tmp_path / "page.md")


def test_tables_count_what_was_never_reached():
    def result(curve, total):
        baselines = {"client_biases": {"validation": 1.0, "test": 1.0}}
        shared = {"better": "lower", "bytes": {"total": total}, "baselines": baselines}
        return {**shared, "curve": curve, "test_at_best_validation": curve[-1][3]}

    cells = list(panel_cells(TINY.panels[0], 1))
    assert cells[0] == Cell(Split("ciao", "average", 3, 1), "gcn", "all")
    full = result([[0, 0, 1.0, 1.0], [1, 2_000_000, 0.9, 0.91], [2, 4_000_000, 0.9, 0.91]], 4_000_000)
    half = result([[0, 0, 1.0, 1.0], [1, 1_000_000, 0.901, 0.92], [2, 2_000_000, 0.95, 0.97]], 2_000_000)
    never = result([[0, 0, 1.0, 1.0], [1, 1_000_000, 0.99, 0.99]], 1_000_000)
    text = tables(TINY, {cells[0]: full, cells[1]: half}, 1)
    assert "| FedACS (GCN) | 0.9700 | 0.0300 | 2.00 | 1.00 | 50 % | 1.039 | 568 | 67% |" in text
    assert "| never | never |" in tables(TINY, {cells[0]: full, cells[1]: never}, 1)
    assert "Clients failed" not in text
    unscored = {
        **half,
        "curve": [*half["curve"], [3, 3_000_000, None, None]],
        "failures": {"training": 1, "scoring": 2},
    }
    text = tables(TINY, {cells[0]: full, cells[1]: unscored}, 1)
    assert "| FedACS (GCN) | 0.9700 | 0.0300 | 2.00 | 1.00 | 50 % | 1.039 | 568 | 67% |" in text
    assert "FedACS, gcn, ciao-average-3, seed 1: 1 in training, 2 in scoring." in text
    none = {**half, "curve": [[*point[:2], None, None] for point in half["curve"]], "test_at_best_validation": None}
    assert "| FedACS (GCN) | never | never |" in tables(TINY, {cells[0]: full, cells[1]: none}, 1)
    assert "Not run yet." in tables(dataclasses.replace(TINY), {}, 1)
    own = dataclasses.replace(TINY, panels=({**TINY.panels[0], "runs": [["gcn", "all"], ["", "fedacs"]], "paper": {}},))
    cells = list(panel_cells(own.panels[0], 1))
    text = tables(own, {cells[0]: full, cells[1]: half}, 1)
    assert "| FedACS | 0.9700 | 0.0300 | 2.00 | 1.00 | 50 % |" in text, (
        "a recipe's own model, held against the reference"
    )


ACCURACIES = dataclasses.replace(
    TINY,
    layout="accuracy",
    panels=(
        {
            "title": "Table 1",
            "data": ["chem", "dd"],
            "partitions": [""],
            "clients": [0],
            "runs": [["gin", "all"], ["gin", "fedacs"]],
            "baselines": ["majority"],
            "paper": {"chem": {"gin-fedacs": 85.43}},
        },
    ),
)


def test_accuracies_stand_side_by_side():
    def result(test, plain, total):
        kept = {"test_at_best_validation": test, "test_plain_mean": plain, "bytes": {"total": total}}
        return {**kept, "baselines": {"majority": {"validation": 0.6, "test": 0.61}}}

    cells = {cell.key: cell for cell in ACCURACIES.cells(2)}
    assert "chem-gin-all-seed1" in cells
    found = {
        cells["chem-gin-all-seed1"]: result(0.80, 0.78, 20_000_000),
        cells["chem-gin-fedacs-seed1"]: result(0.84, 0.80, 1_000_000),
        cells["chem-gin-fedacs-seed2"]: result(0.86, 0.82, 1_000_000),
    }
    text = tables(ACCURACIES, found, 2)
    assert "| FedACS, gin | 85.00 ± 1.41 (81.00 ± 1.41) [85.43] |  |" in text
    assert "| full participation, gin | 80.00 (78.00) |  |" in text
    assert "chem: majority 61.00 ± 0.00" in text
    assert "| FedACS, gin | 1 (20x) |  | 2 |" in text
    assert "Not run yet." in tables(ACCURACIES, {}, 2)
    assert "Clients failed" not in text
    found[cells["chem-gin-fedacs-seed2"]] = {**result(None, None, 1_000_000), "failures": {"scoring": 60}}
    text = tables(ACCURACIES, found, 2)
    assert "| FedACS, gin | 84.00 (80.00) [85.43] |  |" in text
    assert "FedACS, gin, chem, seed 2: 60 in scoring." in text
    del found[cells["chem-gin-fedacs-seed1"]]
    assert "| FedACS, gin | no score [85.43] |  |" in tables(ACCURACIES, found, 2)


def test_accuracies_tell_what_options_were_chosen_on_and_what_scores_would_take():
    known = {"test_at_best_validation": 0.8, "bytes": {"total": 1_000_000}, "scoring_bytes": 500_000}
    found = {cell: known for cell in ACCURACIES.cells(1) if cell.key.startswith("chem")}
    text = tables(dataclasses.replace(ACCURACIES, tuned={"seeds": [1], "sets": ["dd"]}), found, 1)
    assert "Options were chosen on seed 1; set dd.\n" in text
    assert "| MB with scoring at clients | chem | dd |" in text
    assert "| FedACS, gin | 1.5 |  |" in text


def test_the_studies_that_come_with_fedgraft_name_what_exists():
    for name in study_files.titles():
        found = study.load(name)
        assert study.load(str(Path(study.__file__).parent / f"{name}.toml")) == found, "checked as anybody's file is"
        cells = found.cells(1)
        assert len(cells) == len({cell.key for cell in cells})
        first = found.panels[0]["data"][0]
        kinds = {(c.split.data if found.sets else first, c.model, c.method) for c in cells}
        shared = {data: {**found.common_to(Split(data, "", 0, 1)), "data.root": "anywhere"} for data, _, _ in kinds}
        for data, changes in shared.items():
            jobs.load(found.recipe_for(data), changes)  # what deals the data and has the baselines
        for data, model, method in kinds:
            found.experiment(data, method, {**shared[data], **({"model.name": model} if model else {})})
        json.dumps(found.panels)


def test_a_panel_may_begin_after_the_seeds_that_options_were_chosen_on():
    fresh = dataclasses.replace(TINY, panels=({**TINY.panels[0], "first_seed": 6},))
    assert {cell.split.seed for cell in fresh.cells(3)} == {6, 7, 8}
    assert {cell.split.seed for cell in TINY.cells(3)} == {1, 2, 3}


def test_a_data_set_may_have_a_recipe_and_settings_of_its_own():
    sets = {"pubmed": {"recipe": "fedais", "changes": {"rounds": 7}}}
    methods = {**TINY.methods, "gcn": {"label": "FedGCN", "recipe": "fedgcn"}}
    found = dataclasses.replace(TINY, sets=sets, methods=methods)
    assert (found.recipe_for("pubmed"), found.recipe_for("ciao")) == ("fedais", "fedacs")
    assert (found.recipe_for("pubmed", "all"), found.recipe_for("pubmed", "gcn")) == ("fedais", "fedgcn")
    rounds = {data: found.common_to(Split(data, "", 3, 1))["rounds"] for data in ("pubmed", "ciao")}
    assert rounds == {"pubmed": 7, "ciao": 3}
