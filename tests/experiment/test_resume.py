import json
import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.errors import InputError, Interrupted
from fedgraft.experiment.running import runner
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.runtimes.workers.signals import Terminated
from helpers.killed_runs import Killed
from helpers.toy_runs import EVERYTHING, execute_and_die, toy

WRITES = [6, 7, 10, 15, 16, 17, 19, 63]
"""Those to disk at which a run is killed: as it begins, in the middle of a checkpoint, between two, at the end."""
AGAIN = (6, 9, 12, 15, 30)
slow = pytest.mark.slow


def measured(point):
    """A summary or a row without what a clock on the wall measured."""
    if "curve" in point:
        point = {**point, "curve": [[*values[:2], *values[3:]] for values in point["curve"]]}
    return {key: value for key, value in point.items() if key != "seconds"}


def content(folder):
    """All of a run that must not depend on how often it was interrupted."""
    store = RunFolder.open(folder)
    _, memories = store.load()
    return {
        "summary": measured(store.summary()),
        "rows": [measured(row) for row in store.rows()],
        "ledger": (folder / "ledger.jsonl").read_text(),
        "model": (folder / "model.safetensors").read_bytes(),
        "memories": memories,
        "experiment": store.experiment_toml(),
    }


@pytest.fixture(scope="module")
def run(whole_run):
    """A run with every kind of memory, and what kills at these writes to disk leave of it."""
    return whole_run(toy(**EVERYTHING), WRITES)


@pytest.fixture(scope="module")
def whole(run):
    expected = content(run.folder)
    assert len(expected["rows"]) == 12
    assert all(row["explanation"].keys() == {"probed loss", "score"} for row in expected["rows"])
    kept = [set(wire.unpack(memory)) for memory in expected["memories"].values() if memory]
    assert any({"private", "sharing", "sampler", "uplink", "best", "moments"} <= each for each in kept)
    assert "probed" in set.union(*kept)
    return expected


def child(folder, **options):
    """A process that runs everything; started in no time by the server that forks workers."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fedgraft.runtimes.workers.preload"])
    changes = {**EVERYTHING, "checkpoint": {"every_seconds": options.pop("every_seconds", 0)}}
    process = context.Process(target=execute_and_die, args=(folder, changes), kwargs=options)
    process.start()
    return process


def rounds(folder):
    path = folder / "rounds.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def names(folder):
    """Names of all files of a run."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def finished(folder, whole, changed=()):
    """Resume, and compare with the run that was never interrupted."""
    resume(folder)
    found = content(folder)
    for part, expected in whole.items():
        if part not in changed:
            assert found[part] == expected, part


@pytest.mark.parametrize("kill", [0, 1, *(pytest.param(number, marks=slow) for number in range(2, 10))])
def test_killed_at_a_random_moment_a_run_ends_as_if_it_had_not_been(tmp_path, whole, kill):
    folder, every, g = tmp_path / "run", [0, 0.05][kill % 2], np.random.default_rng([1, kill])
    process = child(folder, every_seconds=every, pause_seconds=0.005)
    until, moment = time.monotonic() + 60, int(g.integers(0, 11))
    while not ((folder / "experiment.toml").exists() and rounds(folder) >= moment) and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(g.uniform(0, 0.02))
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    finished(folder, whole, changed=("experiment",))


@pytest.mark.parametrize("call", WRITES)
def test_killed_while_it_writes_a_run_ends_as_if_it_had_not_been(tmp_path, run, whole, call):
    finished(run.killed(call, tmp_path / "run"), whole)


@pytest.mark.parametrize("call", [10, *(pytest.param(call, marks=slow) for call in WRITES if call != 10)])
def test_a_kill_leaves_what_the_copy_of_a_run_says(tmp_path, run, whole, call):
    process = child(tmp_path / "run", at_call=call)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert names(tmp_path / "run") == names(run.killed(call, tmp_path / "copy"))
    finished(tmp_path / "run", whole)


@slow
def test_killed_again_and_again_a_run_ends_as_if_it_had_not_been(tmp_path, run, whole, dying):
    folder = run.killed(10, tmp_path / "run")
    for call in AGAIN:
        dying(call)
        with pytest.raises(Killed):
            resume(folder)
    dying(0)
    finished(folder, whole)


class Presses:
    """Presses Ctrl-C at some round, so many times, or sends another signal."""

    def __init__(self, round, times=1, number=signal.SIGINT):
        self.round, self.times, self.number = round, times, number

    def after_round(self, state, row):
        if row.round == self.round:
            for _ in range(self.times):
                signal.raise_signal(self.number)


def test_ctrl_c_ends_the_round_stores_it_and_the_run_goes_on_later(tmp_path, whole):
    before = signal.getsignal(signal.SIGINT)
    experiment = toy(**{**EVERYTHING, "checkpoint": {"every_seconds": 1e9}})
    with pytest.raises(Interrupted, match="interrupted after round 5"):
        execute(experiment, tmp_path / "run", Presses(4))
    assert signal.getsignal(signal.SIGINT) is before
    state, _ = RunFolder.open(tmp_path / "run").load()
    assert (state.round, state.finished, rounds(tmp_path / "run")) == (5, "", 5)
    with pytest.raises(InputError, match=r"has no summary\.json yet"):
        RunFolder.open(tmp_path / "run").summary()
    with pytest.raises(Interrupted, match="interrupted after round 9"):
        resume(tmp_path / "run", Presses(8))
    finished(tmp_path / "run", whole, changed=("experiment",))


def test_ctrl_c_in_the_last_round_lets_the_run_finish(tmp_path, whole):
    execute(toy(**EVERYTHING), tmp_path / "run", Presses(11))
    assert content(tmp_path / "run") == whole


def test_a_second_ctrl_c_stops_at_once_and_the_last_checkpoint_counts(tmp_path, whole):
    with pytest.raises(KeyboardInterrupt):
        execute(toy(**EVERYTHING), tmp_path / "run", Presses(4, times=2))
    assert RunFolder.open(tmp_path / "run").load()[0].round == 4
    finished(tmp_path / "run", whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_schedulers_and_closed_terminals_send_is_like_ctrl_c(tmp_path, whole, number):
    experiment = toy(**{**EVERYTHING, "checkpoint": {"every_seconds": 1e9}})
    with pytest.raises(Interrupted, match="interrupted after round 5") as stop:
        execute(experiment, tmp_path / "run", Presses(4, number=number))
    assert stop.value.number == number
    assert signal.getsignal(number) == signal.SIG_DFL
    with pytest.raises(Terminated):
        resume(tmp_path / "run", Presses(7, times=2, number=number))
    finished(tmp_path / "run", whole, changed=("experiment",))


def test_without_a_folder_a_run_can_be_interrupted_too():
    with pytest.raises(Interrupted):
        execute(toy(**EVERYTHING), None, Presses(2))


def test_a_thread_that_is_not_the_main_one_runs_as_well(whole):
    found = []
    thread = threading.Thread(target=lambda: found.append(execute(toy(**EVERYTHING))))
    thread.start()
    thread.join()
    assert measured(found[0]) == whole["summary"]


def test_a_finished_run_is_summarised_again_and_nothing_is_started(tmp_path, run, monkeypatch):
    summary = RunFolder.open(run.copy(tmp_path / "run")).summary()
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    monkeypatch.setattr(runner, "InProcess", None)
    assert resume(tmp_path / "run") == summary
    (tmp_path / "run" / "summary.json").unlink()
    (tmp_path / "run" / "model.safetensors").unlink()
    assert resume(tmp_path / "run") == summary
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


@slow
def test_a_run_can_be_taken_up_by_any_number_of_workers(tmp_path, whole):
    with pytest.raises(Interrupted):
        execute(toy(**EVERYTHING), tmp_path / "run", Presses(6))
    path = tmp_path / "run" / "experiment.toml"
    assert "workers = 0" in path.read_text()
    path.write_text(path.read_text().replace("workers = 0", "workers = 2"))
    finished(tmp_path / "run", whole, changed=("experiment",))


def test_what_was_charged_after_the_last_round_is_stored_too(tmp_path):
    # A selector that probes and then selects nobody: those bytes belong to no row, but to the ledger.
    selector = {"name": "helpers.toy_methods:Scripted", "cohorts": [[0, 1], []], "probed": [2]}
    summary = execute(toy(selector=selector), tmp_path / "run")
    assert (summary["rounds"], summary["stopped_by"]) == (1, "nobody to select")
    entries = list(RunFolder.open(tmp_path / "run").entries())
    assert {entry["purpose"] for entry in entries if entry["round"] == 2} == {"probe", "header"}
    assert sum(entry["bytes"] for entry in entries) == summary["bytes"]["total"]
    assert resume(tmp_path / "run") == summary
    assert list(RunFolder.open(tmp_path / "run").entries()) == entries


def test_a_damaged_experiment_is_named(tmp_path, run):
    run.copy(tmp_path / "run")
    path = tmp_path / "run" / "experiment.toml"
    path.write_text(path.read_text()[:-20] + "= [")
    with pytest.raises(InputError, match=r"run/experiment\.toml is not valid TOML"):
        resume(tmp_path / "run")
    with pytest.raises(InputError, match="is not a run's folder"):
        resume(tmp_path)


def test_the_summary_is_complete(whole):
    summary = whole["summary"]
    assert summary["recipe"] == "toy"
    assert summary["dataset"] == "helpers.toy_methods:Wet"
    assert (summary["clients"], summary["seed"], summary["rounds"], summary["stopped_by"]) == (5, 1, 12, "rounds")
    assert (summary["metric"], summary["better"]) == ("rmse", "lower")
    assert summary["selections"] == sum(len(row["selected"]) for row in whole["rows"])
    assert summary["bytes"]["total"] == summary["bytes"]["down"] + summary["bytes"]["up"]
    assert [point[0] for point in summary["curve"]] == [0, 2, 4, 6, 8, 10, 12]
    assert summary["validation"] == summary["curve"][-1][2]
    best = min(summary["curve"], key=lambda point: point[2])
    assert summary["test_at_best_validation"] == best[3]
    json.dumps(summary, allow_nan=False)
