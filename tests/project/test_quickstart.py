"""Everything on the quickstart page works, in the order in which it stands there; smaller, to be quick."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedgraft.experiment import job as jobs
from fedgraft.interface.cli import app
from helpers.tiny import TINY

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"
BLOCK = re.compile(r"^(<!-- not run -->\n)?```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def smaller(load):
    """Whatever the page runs, on fewer and for two rounds."""

    def build(recipe):
        of_shops = recipe.section("data")["name"] == "shops"
        return load(recipe.changed({key: value for key, value in TINY.items() if of_shops or key[:5] != "data."}))

    return build


@pytest.mark.slow
def test_every_block_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build = smaller(jobs.build)
    monkeypatch.setattr("fedgraft.experiment.job.build", build)
    names: dict[str, object] = {}
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert sum(1 for skipped, _, _ in blocks if skipped) == 2
    for number, (skipped, language, code) in enumerate(blocks):
        if not skipped and language == "python":
            exec(compile(code, f"quickstart.md, block {number}", "exec"), names)
        elif not skipped:
            for line in code.splitlines():
                command, *arguments = shlex.split(line)
                assert command == "fedgraft"
                done = CliRunner().invoke(app, arguments)
                assert done.exit_code == 0, (line, done.output, done.exception)
    assert {path.name for path in Path("runs").iterdir()} == {"mine", "a", "b", "c"}
    for written in ("report.html", "mine.html", "answers.csv"):
        assert Path(written).stat().st_size
