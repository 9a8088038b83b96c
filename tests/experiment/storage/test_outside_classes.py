"""Folders that name classes outside fedgraft: nothing of them is imported unless this user made or trusts them."""

import shutil
import sys
from pathlib import Path

import pytest

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage import outside_classes
from helpers.toy_runs import toy

MODULE = "module_of_others"
REFUSED = rf"experiment.toml names classes outside fedgraft, whose code would run: .*{MODULE}:Line.* fedgraft trust "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run of somebody else, whose class leaves a mark where its module is imported."""
    source = f"""
from pathlib import Path
from helpers import toy
Path({str(tmp_path / "imported")!r}).touch()
class Line(toy.Line): pass
class Lines(toy.Lines): task = "{MODULE}:Line"
"""
    (tmp_path / f"{MODULE}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop(MODULE, None)
    changes = {"data": {"name": f"{MODULE}:Lines"}, "task": {"name": f"{MODULE}:Line"}, "runtime": {"workers": 0}}
    execute(toy(rounds=2, **changes), tmp_path / "run")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user's"))
    monkeypatch.setattr(outside_classes, "_KNOWN", set())
    sys.modules.pop(MODULE, None)
    (tmp_path / "imported").unlink()
    return tmp_path / "run"


def test_every_way_in_refuses_before_anything_is_imported(folder: Path) -> None:
    ways = {
        "resume": lambda: resume(folder),
        "fedgraft.resume": lambda: fedgraft.resume(folder, progress=False),
        "predict": lambda: fedgraft.open(folder).predict(),
        "model": lambda: fedgraft.open(folder).model,
        "experiment": lambda: fedgraft.open(folder).experiment,
        "client_model": lambda: fedgraft.open(folder).client_model("0"),
        "report": lambda: fedgraft.open(folder).report(folder / "x.html", representations=True),
    }
    for name, way in ways.items():
        with pytest.raises(InputError, match=REFUSED):
            way()
        assert not (folder.parent / "imported").exists(), name
    assert fedgraft.open(folder).summary["rounds"] == 2
    assert not fedgraft.compare([folder]).empty
    fedgraft.open(folder).report(folder.parent / "x.html")
    assert not (folder.parent / "imported").exists(), "what is read alone imports nothing"


def test_who_trusts_the_classes_says_so_once(folder: Path) -> None:
    assert fedgraft.trust(folder) == (f"{MODULE}:Line", f"{MODULE}:Lines")
    assert fedgraft.resume(folder, progress=False).experiment.seed == 1
    assert fedgraft.open(folder).model is not None


def test_there_is_a_command_for_it(folder: Path, fedgraft) -> None:
    refused = fedgraft("resume", folder)
    assert refused.code == 2
    assert f"{MODULE}:Line" in refused.err
    assert f"Trusted: {MODULE}:Line, {MODULE}:Lines." in fedgraft("trust", folder).err
    assert fedgraft("resume", folder, "-q").code == 0


def test_what_this_user_made_here_is_trusted_in_any_process_and_after_a_move(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    execute(toy(rounds=2), tmp_path / "run")
    monkeypatch.setattr(outside_classes, "_KNOWN", set())
    shutil.move(tmp_path / "run", tmp_path / "moved")
    assert resume(tmp_path / "moved")["rounds"] == 2
    for made in (tmp_path / "state" / "fedgraft" / "trusted").iterdir():
        assert made.stat().st_mode & 0o077 == 0
    text = (tmp_path / "moved" / "experiment.toml").read_text()
    (tmp_path / "moved" / "experiment.toml").write_text(text.replace("baselines = []", 'baselines = ["evil:Class"]'))
    with pytest.raises(InputError, match=r"would run: evil:Class\. "):
        resume(tmp_path / "moved")


def test_a_run_without_such_classes_notes_nothing(finished_run: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert resume(finished_run)["rounds"] == 4
    assert not (tmp_path / "state").exists()
