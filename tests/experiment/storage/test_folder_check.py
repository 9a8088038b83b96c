"""Where a run may begin, what it touches there, and what it leaves: nothing of anybody's is overwritten or deleted."""

import errno
import os
import resource
from pathlib import Path

import pytest

from fedgraft.errors import BudgetError, FedgraftError, InputError
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.folder_check import check_own, make, memory_name, memory_of
from fedgraft.experiment.storage.run_folder import RunFolder
from helpers.toy_runs import toy


class Killed(BaseException):
    """What nothing catches, like a kill."""


def content(folder):
    """{path: bytes of a file, target of a link, None for a folder} of everything below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        link, file = path.is_symlink(), path.is_file()
        found[path.relative_to(folder)] = os.readlink(path) if link else path.read_bytes() if file else None
    return found


def test_names_of_memories_are_read_back():
    for client in (0, 12, ~0, ~7):
        assert memory_of(memory_name(client, b"x"))[0] == client
    assert memory_name(3, b"") != memory_name(3, b"x")
    short, upper = memory_name(0, b"")[:-5] + ".bin", memory_name(0, b"").replace("client", "Client")
    for name in ("state.bin", "client-0.bin", "best.pt", short, upper, "../" + memory_name(0, b""), "client-00-a.bin"):
        assert memory_of(name) is None


# --- where a run begins -----------------------------------------------------------------------------------------------

FOREIGN = [
    ["notes.txt"],
    ["checkpoint/best.pt"],
    ["checkpoint/"],
    ["summary.json", "model.safetensors", "environment.json"],
    ["environment.json", "origin.json", "ledger.jsonl"],
    ["rounds.jsonl"],
    [".lock", "environment.json"],
    [".lock", "checkpoint/note"],
    ["experiment.toml.new"],
    [".hidden"],
    ["data/ratings.parquet"],
]


@pytest.mark.parametrize("names", FOREIGN, ids="+".join)
@pytest.mark.parametrize("changes", [{}, {"budget": {"bytes": 10}}], ids=["good", "too poor"])
def test_a_folder_that_holds_anything_is_refused_and_left_alone(tmp_path, names, changes):
    folder = tmp_path / "proj"
    for name in names:
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_text("mine")
    before = content(tmp_path)
    with pytest.raises(InputError, match=rf"^--out {folder} is not empty: it holds '.*'.*choose another\.$"):
        execute(toy(**changes), folder)
    assert content(tmp_path) == before


def test_an_empty_folder_will_do_and_so_does_a_link_to_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real")
    summary = execute(toy(), tmp_path / "out")
    assert resume(tmp_path / "real") == summary
    assert (tmp_path / "out").is_symlink()


def test_what_a_start_that_was_killed_leaves_is_begun_again(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "discard", lambda store: None)  # a kill does not wait for it
        patch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            execute(toy(), tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".lock", "checkpoint", "environment.json.new", "experiment.toml.new", "origin.json.new"]
    execute(toy(), tmp_path)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("x"), Killed()])
@pytest.mark.parametrize(
    "where",
    [
        "storage.run_folder.folders.make",
        "storage.run_folder.disk.replace",
        "running.runner._begin",
        "running.settled.matched_here",
    ],
)
def test_a_start_that_fails_leaves_all_as_it_was(tmp_path, monkeypatch, there, error, where):
    def fail(*_):
        raise error

    folder = tmp_path / "some" / "where" / "run"
    if there:
        folder.mkdir(parents=True)
    before = content(tmp_path)
    monkeypatch.setattr(f"fedgraft.experiment.{where}", fail)
    with pytest.raises((FedgraftError, RuntimeError, Killed, OSError)):
        execute(toy(), folder)
    stopped = isinstance(error, Killed) and where == "running.runner._begin"
    if stopped:
        assert (folder / "experiment.toml").is_file(), "somebody who stops a run that has its name may resume it"
    else:
        assert content(tmp_path) == before


def test_what_somebody_puts_there_meanwhile_stays(tmp_path, monkeypatch):
    def disturbed(experiment):
        for name in ("note", "checkpoint/note"):
            (tmp_path / "a" / "run" / name).write_text("mine")
        raise BudgetError("too poor")

    monkeypatch.setattr("fedgraft.experiment.running.settled.matched_here", disturbed)
    with pytest.raises(BudgetError):
        execute(toy(), tmp_path / "a" / "run")
    left = {path for path, kind in content(tmp_path / "a" / "run").items() if kind is not None}
    assert left == {Path("note"), Path("checkpoint/note")}


def test_folders_that_are_made_are_told_outermost_first(tmp_path):
    assert make(tmp_path / "a" / "b") == [tmp_path / "a", tmp_path / "a" / "b"]
    assert make(tmp_path / "a" / "b") == []
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        make(tmp_path / "file" / "x" / "y")


# --- what a run touches -----------------------------------------------------------------------------------------------


def started(folder):
    """A run that was interrupted after two rounds."""
    from fedgraft.errors import Interrupted

    class Stops:
        def after_round(self, state, row):
            if row.round == 2:
                raise Interrupted("enough")

    with pytest.raises(Interrupted):
        execute(toy(rounds=4, checkpoint={"every_seconds": 0}), folder, Stops())
    return folder


def test_what_others_have_in_a_checkpoint_stays_and_disturbs_nothing(tmp_path):
    folder = started(tmp_path / "run")
    ours = {path.name for path in (folder / "checkpoint").iterdir()}
    (folder / "checkpoint" / "sub").mkdir()
    (folder / "checkpoint" / memory_name(0, b"a folder")).mkdir()
    for name in ("note.txt", "best.pt", "sub/thesis.tex", "client-0.bin", "client-1-abc.bin"):
        (folder / "checkpoint" / name).write_text("mine")
    (folder / "checkpoint" / memory_name(0, b"stale")).write_text("of a checkpoint that a kill ended")
    whole = execute(toy(rounds=4), None)
    with pytest.raises(InputError, match=r"client-0-.*\.bin is a folder; it must be a file of the run's own"):
        resume(folder)
    (folder / "checkpoint" / memory_name(0, b"a folder")).rmdir()
    assert resume(folder)["digest"] == whole["digest"]
    left = {str(path.relative_to(folder / "checkpoint")) for path in (folder / "checkpoint").rglob("*")} - ours
    assert {"note.txt", "best.pt", "sub", "sub/thesis.tex", "client-0.bin", "client-1-abc.bin"} <= left
    assert memory_name(0, b"stale") not in left


OWN = ["checkpoint", "checkpoint/state.bin", "checkpoint/state.bin.new", "experiment.toml", "experiment.toml.new"]
OWN += ["environment.json", "origin.json", "rounds.jsonl", "ledger.jsonl", "summary.json", "summary.json.new"]
OWN += ["model.safetensors", ".lock"]


@pytest.mark.parametrize("name", OWN)
def test_a_link_in_place_of_a_files_own_is_refused(tmp_path, name):
    folder, elsewhere = started(tmp_path / "run"), tmp_path / "elsewhere"
    path = folder / name
    if path.exists():
        path.rename(elsewhere)
    else:
        elsewhere.write_text("mine")
    path.symlink_to(elsewhere)
    before = content(tmp_path)
    with pytest.raises(InputError, match=rf"{path} is a link; it must be a (file|folder) of the run's own"):
        resume(folder)
    assert content(tmp_path) == before


@pytest.mark.parametrize("name", ["rounds.jsonl", "ledger.jsonl"])
def test_rows_that_another_folder_shares_are_refused(tmp_path, name):
    folder = started(tmp_path / "run")
    os.link(folder / name, tmp_path / "backup")
    with pytest.raises(InputError, match=rf"{name} is a second name \(hard link\) of another file"):
        resume(folder)
    (tmp_path / "backup").unlink()
    resume(folder)


def test_a_file_that_another_name_shares_is_replaced_and_never_written_into(tmp_path):
    folder = started(tmp_path / "run")
    (tmp_path / "mine").write_text("mine")
    for name in ("state.bin.new", "state.bin"):
        path = folder / "checkpoint" / name
        path.exists() and os.link(path, tmp_path / "copy")
        path.exists() or os.link(tmp_path / "mine", path)
    before = (tmp_path / "copy").read_bytes()
    resume(folder)
    assert ((tmp_path / "mine").read_text(), (tmp_path / "copy").read_bytes()) == ("mine", before)


def test_what_is_no_file_is_refused(tmp_path):
    folder = started(tmp_path / "run")
    os.mkfifo(folder / "summary.json")
    with pytest.raises(InputError, match=r"summary\.json is a device"):
        check_own(folder)


# --- no room ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_files():
    """A function that lets no file grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 100, 400, 1000])
def test_without_room_for_a_checkpoint_nothing_is_left_and_none_is_claimed(tmp_path, small_files, size):
    small_files(size)
    try:
        with pytest.raises(FedgraftError, match="File too large") as caught:
            execute(toy(), tmp_path / "new" / "run")
    finally:
        small_files(resource.RLIM_INFINITY)
    assert "intact" not in str(caught.value)
    assert "resume" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_with_a_checkpoint_it_is_told_how_to_go_on(tmp_path, monkeypatch):
    folder = started(tmp_path / "run")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fedgraft.experiment.storage.run_folder.disk.append", full)
        with pytest.raises(FedgraftError, match=r"No space left on device\. The last checkpoint is intact: .*resume"):
            resume(folder)
    assert resume(folder)["rounds"] == 4


def test_a_resumed_run_without_a_checkpoint_stays(tmp_path, monkeypatch):
    def killed(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("fedgraft.experiment.running.runner._begin", killed)
        with pytest.raises(Killed):
            execute(toy(), tmp_path / "run")
    before = content(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fedgraft.experiment.storage.run_folder.disk.append", full)
        with pytest.raises(FedgraftError, match=r"There is no checkpoint yet: mend that and continue with"):
            resume(tmp_path / "run")
    assert content(tmp_path) == before
    assert resume(tmp_path / "run")["digest"] == execute(toy())["digest"]
