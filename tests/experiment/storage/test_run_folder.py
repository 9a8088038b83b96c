import errno
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft.engine.server.ledger import Entry
from fedgraft.engine.server.loop.stopping import Row
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import BudgetError, FedgraftError, InputError
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.run_folder import STATE, RunFolder
from helpers.run_folders import created
from helpers.toy_runs import same, toy


def state(round=1):
    return RunState(
        profiles=[{"examples": 3.0}, {}],
        sharing={"model": {"w": np.arange(3, dtype=np.float32) + round}},
        selector={"seen": [1, 2]},
        round=round,
        curve=[{"round": 0, "validation": math.nan}],
    )


def row(round, loss=1.0):
    return Row(round, (0, 1), {1: "gone"}, loss, None, None, 10, 10 * round, 0.5, 1.5)


@pytest.fixture
def store(tmp_path):
    """A folder with two rounds, the first of them in the checkpoint."""
    store = created(tmp_path / "run", "recipe = 'toy'\n", {"python": "3"})
    store.append(None, [Entry(0, 0, "up", "header", 5)])
    store.checkpoint(state(0), [(0, b"memory 0"), (1, b"memory 1")])
    store.append(row(1), [Entry(1, 0, "up", "model", 10)])
    store.checkpoint(state(1), [(0, b"memory 0 of round 1")])
    store.append(row(2), [Entry(2, 0, "up", "model", 10)])
    return store


def names(store):
    return sorted(path.name for path in (store.folder / "checkpoint").iterdir())


def test_a_checkpoint_comes_back_as_it_was(store):
    loaded, memories = RunFolder.open(store.folder).load()
    assert same(loaded.to_tree(), state(1).to_tree())
    assert memories == {0: b"memory 0 of round 1", 1: b"memory 1"}
    assert len(names(store)) == 5, "this one, the one before, and three memories that either needs"
    store.checkpoint(state(2), [])
    assert len(names(store)) == 4, "what no checkpoint needs is gone"


def test_loading_changes_nothing_and_rewinding_cuts_what_the_checkpoint_does_not_count(store):
    again = RunFolder.open(store.folder)
    again.load()
    assert [row["round"] for row in again.rows()] == [1, 2]
    again.rewind()
    assert [row["round"] for row in again.rows()] == [1]
    assert [entry["round"] for entry in again.entries()] == [0, 1]
    again.append(row(2), [Entry(2, 0, "up", "model", 10)])
    again.checkpoint(state(2), [(1, b"memory 1 of round 2")])
    assert RunFolder.open(store.folder).load()[1] == {0: b"memory 0 of round 1", 1: b"memory 1 of round 2"}


def test_a_memory_that_becomes_what_it_was_is_not_written_over(store):
    store.checkpoint(state(2), [(0, b"memory 0 of round 1"), (1, b"")])
    assert RunFolder.open(store.folder).load()[1] == {0: b"memory 0 of round 1", 1: b""}


def test_a_row_cut_in_mid_line_is_cut_off(store):
    for name in ("rounds.jsonl", "ledger.jsonl"):
        path = store.folder / name
        path.write_bytes(path.read_bytes()[:-4])
    again = RunFolder.open(store.folder)
    assert [row["round"] for row in again.rows()] == [1], "a reader sees whole lines only"
    again.load()
    again.rewind()
    assert [row["round"] for row in again.rows()] == [1]


@pytest.mark.parametrize("name", ["rounds.jsonl", "ledger.jsonl"])
@pytest.mark.parametrize("left", [None, 0, 7])
def test_rows_that_the_checkpoint_counts_must_be_there(store, name, left):
    path = store.folder / name
    if left is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:left])
    again = RunFolder.open(store.folder)
    again.load()
    with pytest.raises(InputError, match=rf"{name} is damaged: it has {left or 0} bytes, the checkpoint counts \d+"):
        again.rewind()


def test_damaged_lines_are_named(store):
    path = store.folder / "rounds.jsonl"
    path.write_text("{}\n{]\n")
    with pytest.raises(InputError, match=r"rounds\.jsonl, line 2 is damaged"):
        store.rows()


def test_what_is_not_finite_is_null_in_rows(store):
    store.append(row(3, loss=math.nan), [])
    assert store.rows()[-1]["loss"] is None
    stored = {"selected": [0, 1], "failed": {"1": "gone"}, "late": [], "loss": None}
    assert store.rows()[-1] == {**vars(row(3)), **stored}


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_damage_of_a_checkpoint_is_found(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("run")
    store = created(folder, "", {})
    store.checkpoint(state(1), [(0, b"memory")])
    path = data.draw(st.sampled_from(sorted((folder / "checkpoint").iterdir())))
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{path.name} is damaged"):
        RunFolder.open(folder).load()


def test_a_missing_memory_is_named(store):
    (path,) = (store.folder / "checkpoint").glob("client-1-*")
    path.unlink()
    with pytest.raises(InputError, match=rf"{path.name} cannot be read: No such file"):
        RunFolder.open(store.folder).load()


def test_without_a_checkpoint_a_run_starts_afresh_unless_it_had_rounds(tmp_path, store):
    young = created(tmp_path / "young", "", {})
    young.append(None, [Entry(0, 0, "up", "header", 5)])
    assert young.load() is None
    young.rewind()
    assert list(young.entries()) == []
    (store.folder / "checkpoint" / STATE).unlink()
    with pytest.raises(InputError, match=r"state\.bin is missing, though rounds were stored"):
        RunFolder.open(store.folder).load()


def test_a_folder_that_holds_a_run_is_not_written_over(store):
    with pytest.raises(InputError, match=r"holds a run already\. Continue it with 'fedgraft resume .*/run'"):
        created(store.folder, "", {})
    assert store.experiment_toml() == "recipe = 'toy'\n"


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^--out .*/file/run cannot be written: Not a directory\.$"):
        created(tmp_path / "file" / "run", "", {})
    with pytest.raises(InputError, match=r"^--out .*/file cannot be written: File exists|Not a directory"):
        created(tmp_path / "file", "", {})


def test_other_folders_are_no_runs(tmp_path, store):
    with pytest.raises(InputError, match=r"is not a run's folder: it has no experiment\.toml"):
        RunFolder.open(tmp_path)
    with pytest.raises(InputError, match=r"has no summary\.json yet; finish it with 'fedgraft resume"):
        store.summary()
    (store.folder / "summary.json").write_text("{")
    with pytest.raises(InputError, match=r"summary\.json is damaged"):
        store.summary()


def test_a_run_that_cannot_begin_leaves_nothing_behind(tmp_path):
    with pytest.raises(BudgetError):
        execute(toy(budget={"bytes": 10}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="None of the 5 clients has a training example"):
        execute(toy(data={"name": "helpers.toy:Lines", "points": 0}), tmp_path / "mine")
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"], "an empty folder that was there stays, and stays empty"


# Two processes at one folder.


def test_while_a_run_is_written_nobody_else_writes_there(tmp_path):
    with created(tmp_path / "run", "recipe = 'toy'\n", {"python": "3"}) as ours:
        with pytest.raises(InputError, match="run is being written by another process"):
            resume(tmp_path / "run")
        with pytest.raises(InputError, match="holds a run already"):
            execute(toy(), tmp_path / "run")
        assert ours.experiment_toml() == "recipe = 'toy'\n"
    with RunFolder.open(tmp_path / "run"):
        pass


def test_of_two_that_begin_at_once_the_slower_one_is_told_and_changes_nothing(tmp_path, monkeypatch):
    with created(tmp_path / "run", "recipe = 'first'\n", {}) as first:
        monkeypatch.setattr(
            "fedgraft.experiment.storage.folder_check.check_free", lambda folder: None
        )  # as it was when the slower one looked
        with pytest.raises(InputError, match="being written by another process"):
            created(tmp_path / "run", "recipe = 'second'\n", {})
        assert first.experiment_toml() == "recipe = 'first'\n"


# A full disk.


def write(store):
    store.append(row(3), [])
    store.checkpoint(state(3), [(0, b"newer"), (1, b"newer")])


def full():
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("what", ["fsync", "append", "rename"])
def test_a_full_disk_is_one_clear_error_and_the_last_checkpoint_is_intact(store, monkeypatch, what):
    def fail(*arguments, **options):
        raise full()

    with monkeypatch.context() as patch:
        if what == "fsync":
            patch.setattr(os, "fsync", fail)
        elif what == "append":
            patch.setattr("fedgraft.experiment.storage.disk.append", fail)
        else:
            patch.setattr(Path, "replace", fail)
        with pytest.raises(
            FedgraftError, match=r"run cannot be written: No space left on device\. The last checkpoint"
        ):
            write(store)
    assert not [name for name in names(store) if name.endswith(".new")]
    loaded, memories = RunFolder.open(store.folder).load()
    assert same(loaded.to_tree(), state(1).to_tree())
    assert memories == {0: b"memory 0 of round 1", 1: b"memory 1"}


def test_a_disk_that_fills_up_at_any_moment_of_a_run_loses_nothing(tmp_path, monkeypatch):
    experiment = toy(rounds=3, codec="helpers.toy_methods:Feedback", checkpoint={"every_seconds": 0})
    whole = execute(experiment, tmp_path / "whole")
    count = fails_at(monkeypatch, 10**9)
    execute(experiment, tmp_path / "counted")
    calls, failed = count(), 0
    for call in range(1, calls + 1, 4):
        folder = tmp_path / f"run-{call}"
        fails_at(monkeypatch, call)
        with pytest.raises(FedgraftError, match="No space left on device") as caught:
            execute(experiment, folder)
        assert str(folder) in str(caught.value)
        monkeypatch.undo()
        if (folder / "experiment.toml").exists():
            assert resume(folder)["digest"] == whole["digest"]
            assert (folder / "ledger.jsonl").read_text() == (tmp_path / "whole" / "ledger.jsonl").read_text()
            failed += 1
    assert failed > 5


def fails_at(monkeypatch, call):
    """Let the disk be full at one call of fsync and after; the result tells how many calls there were."""
    fsync, calls = os.fsync, 0

    def counting(handle):
        nonlocal calls
        calls += 1
        if calls >= call:
            raise full()
        fsync(handle)

    monkeypatch.setattr(os, "fsync", counting)
    return lambda: calls


def test_a_run_folder_holds_what_the_readme_says(tmp_path):
    summary = execute(toy(), tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        ".lock",
        "checkpoint",
        "environment.json",
        "experiment.toml",
        "ledger.jsonl",
        "model.safetensors",
        "origin.json",
        "rounds.jsonl",
        "summary.json",
    }
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary
    entries = list(RunFolder.open(tmp_path / "run").entries())
    assert sum(entry["bytes"] for entry in entries) == summary["bytes"]["total"]


def test_a_set_up_message_has_a_file_of_its_own_that_stays(store):
    store.checkpoint(state(2), [(0, b"memory 0 of round 2"), (~0, b"set-up"), (~1, b"set-up too")])
    (setup,) = (name for name in names(store) if name.startswith("setup-1-"))
    store.checkpoint(state(3), [(0, b"memory 0 of round 3")])
    assert setup in names(store)
    _, memories = RunFolder.open(store.folder).load()
    assert memories == {0: b"memory 0 of round 3", 1: b"memory 1", ~0: b"set-up", ~1: b"set-up too"}
