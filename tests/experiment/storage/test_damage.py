"""Whatever happens to a file of a run's folder, what uses it says so in one line, or works as if nothing had."""

import shutil

import numpy as np
import pytest

from fedgraft.errors import FedgraftError
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.reports.stored.stored_runs import StoredRun
from helpers.compared_runs import compare
from helpers.stored_runs import stopped
from helpers.toy_runs import toy

JUNK = [b"", b"\n", b"[]", b"{}", b"null\n", b"\xff\xfe\x00\n", b"[" * 3000, b"NaN", b'{"a": "\\ud800"}\n', bytes(300)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run, one that was stopped on its way, and the digest that both end with; not to be changed."""
    root = tmp_path_factory.mktemp("runs")
    experiment = toy(rounds=3, codec="helpers.toy_methods:Feedback", checkpoint={"every_seconds": 0})
    digest = execute(experiment, root / "finished")["digest"]
    stopped(root / "stopped", experiment)
    return root, digest


def read(folder):
    """Everything that is read of a finished run."""
    run = StoredRun(folder)
    assert len(run.rounds) == run.summary["rounds"]
    assert run.ledger["bytes"].sum() == run.summary["bytes"]["total"]
    assert isinstance(run.environment, dict)
    assert run.shared_bytes > 0
    return compare([folder])


def damaged(content, others, g):
    """A file's content after some accident; None for no file."""
    kind = g.integers(0, 8)
    place = int(g.integers(0, len(content) + 1))
    if kind <= 2 and content:  # one bit, or a few
        changed = bytearray(content)
        for at in g.integers(0, len(content), 1 + 3 * (kind == 2)):
            changed[at] ^= 1 << g.integers(0, 8)
        return bytes(changed)
    if kind == 3:
        return content[:place]
    if kind == 4:
        return content[:place] + g.bytes(int(g.integers(1, 40))) + content[place:]
    if kind == 5:
        return JUNK[g.integers(0, len(JUNK))]
    if kind == 6:
        return others[g.integers(0, len(others))]  # that of another file
    return None if g.integers(0, 2) else content[:place] + content[place // 2 :]


def tried(use, folder):
    """What comes of it, or the error's only line."""
    try:
        return use(folder)
    except FedgraftError as error:
        said = str(error)
    assert said
    assert "\n" not in said
    return said


def files(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.name != ".lock")


@pytest.mark.parametrize("accidents", [3, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["finished", "stopped"])
def test_a_damaged_file_is_told_or_does_no_harm(runs, tmp_path, kind, accidents):
    """So many accidents happen to every file."""
    root, digest = runs
    g = np.random.default_rng(1)
    contents = [(root / kind / name).read_bytes() for name in files(root / kind)]
    refused = 0
    for number, name in enumerate(files(root / kind)):
        for _ in range(accidents):
            folder = shutil.copytree(root / kind, tmp_path / "run")
            content = damaged(contents[number], contents, g)
            if content is None:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(content)
            if kind == "finished":
                tried(read, folder)
            found = tried(resume, folder)
            refused += isinstance(found, str)
            assert isinstance(found, str) or found["digest"] == digest, name
            shutil.rmtree(folder)
    assert refused > 5 * accidents, "accidents are found"
