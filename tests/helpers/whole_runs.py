"""Whole runs that many tests read: each experiment is run once in a process, and a kill leaves a copy of its folder."""

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from helpers.killed_runs import measured


@dataclass(frozen=True)
class WholeRun:
    """A run that has ended, for many to read: who changes its folder takes a copy.

    Args:
        folder: of the run.
        summary: without what a clock on the wall measured.
        copies: {write to disk, counted from 1: a copy of the folder as it was before}.
    """

    folder: Path
    summary: dict[str, Any]
    copies: dict[int, Path]

    def copy(self, folder: Path) -> Path:
        """Make `folder` a copy of the run's, to be changed; return it."""
        return Path(shutil.copytree(self.folder, folder))

    def killed(self, write: int, folder: Path) -> Path:
        """Make `folder` what a kill at that write to disk would have left; return it."""
        return Path(shutil.copytree(self.copies[write], folder))


MakeRun = Callable[..., WholeRun]
"""As the fixture `whole_run`: (experiment, writes) -> its run."""


@contextmanager
def copied(folder: Path, copies: Path, writes: Collection[int]) -> Iterator[dict[int, Path]]:
    """Copy a run's folder before each of these writes to disk; yield {write: copy}, which grows meanwhile."""
    fsync, made, calls = os.fsync, {}, 0

    def copying(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls in writes:
            made[calls] = Path(shutil.copytree(folder, copies / str(calls)))
        fsync(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", copying)
        yield made


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> MakeRun:
    """A function that returns the run of an experiment, which is run when it is first asked for.

    `writes` are those to disk before which the folder is copied, so that tests can go on from there.
    """
    from fedgraft.experiment.running.runner import execute  # not before the hook in conftest.py

    known: dict[tuple[str, tuple[int, ...]], WholeRun] = {}

    def run(experiment: Any, writes: Collection[int] = ()) -> WholeRun:
        key = experiment.to_toml(), tuple(writes)
        if key not in known:
            within = tmp_path_factory.mktemp("whole")
            with copied(within / "run", within / "copies", writes) as copies:
                summary = measured(execute(experiment, within / "run"))
            known[key] = WholeRun(within / "run", summary, copies)
        return known[key]

    return run
