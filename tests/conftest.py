"""Fixtures for every test."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from helpers import shape_checks

pytest_plugins = ["helpers.killed_runs", "helpers.whole_runs"]
torch.set_num_threads(1)
settings.register_profile("tests", deadline=None)  # a machine that others use, too, is at times slow
settings.load_profile("tests")
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as under nohup: tests send it, and processes inherit this
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Folders of tests lie in memory where there is enough of it: a file that takes the place of another waits for a disk.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# From here on, shapes in signatures are checked; outside tests they cost nothing.
shape_checks.install(["fedgraft.methods.models", "fedgraft.nn.propagate"], "beartype.beartype")


def pytest_configure() -> None:
    """Declare the kinds of messages, which who encodes one needs; a test of a codec alone imports no table of them."""
    import_module("fedgraft.engine.protocol.table")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported and collected stays to the end: to look for garbage in it, again and again, takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)  # of garbage there is little, and each search is reported to hypothesis
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Federations first: they take longest, and other tests run while their processes wait."""
    items.sort(key=lambda item: item.get_closest_marker("federation") is None)


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in place of the user's own, in which runs with tests' classes are noted as made here."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def quick_disk() -> Iterator[None]:
    """No write waits for the disk: processes end in tests, machines do not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data sets, or a skip that says how to provide it."""
    root = Path(os.environ.get("FEDGRAFT_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"no real data at {root}; set FEDGRAFT_DATA to the folder that holds ciao/, epinions/ ...")
    return root


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny run that has ended; not to be changed."""
    # Imported here: what the hook above checks must not be imported before it.
    from fedgraft.experiment import job as jobs
    from fedgraft.experiment.running.runner import execute
    from helpers.tiny import TINY

    folder = tmp_path_factory.mktemp("finished") / "run"
    execute(jobs.load("fedacs", {**TINY, "rounds": 4}), folder)
    return folder


@pytest.fixture
def fedgraft(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Run the command in this process, in an empty folder."""
    from helpers.command import caller  # for the same reason

    return caller(monkeypatch, capsys, tmp_path)
