"""The worked example of CONTRIBUTING.md, followed to the letter in a copy of the project."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"^`([^`\n]+\.py)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of what the laws need, with the example's files where the guide puts them."""
    copy = tmp_path_factory.mktemp("project")
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ("src", "tests/contracts", "tests/helpers", "tests/laws", "tests/methods/selectors"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=skipped)
    for file in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / file, copy / file)
    for path, code in examples().items():
        (copy / path).write_text(code)
    return copy


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A folder with the guide's methods that live outside."""
    folder = tmp_path_factory.mktemp("elsewhere")
    for path, code in examples(inside=False).items():
        (folder / path).write_text(code)
    return folder


def examples(inside=True):
    """{path: code} of the guide's files, those of the project or those elsewhere."""
    found = EXAMPLE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    return {path: code for path, code in found if ("/" in path) == inside}


def run(project, *arguments, source=None):
    alone = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=project,
        env={**alone, "PYTHONPATH": str(source or project / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_guide_has_a_method_and_its_test():
    assert list(examples()) == [
        "src/fedgraft/methods/selectors/round_robin.py",
        "tests/methods/selectors/test_round_robin.py",
    ]


def test_the_example_keeps_the_house_style(project):
    run(project, "ruff", "check", "--no-cache", *examples())
    run(project, "ruff", "format", "--no-cache", "--check", *examples())


@pytest.mark.slow
def test_the_laws_find_the_example_and_it_keeps_them(project):
    tests = ["tests/contracts/test_selectors.py", "tests/methods/selectors/test_round_robin.py"]
    summary = run(project, "pytest", "-p", "no:cacheprovider", "-k", "round_robin", "-rA", *tests)
    for law in ("sixty_rounds", "resumed_state", "budget_is_a_promise", "frozen_and_documented", "misses_its_turn"):
        assert re.search(rf"^PASSED .*{law}", summary, re.MULTILINE), summary


@pytest.mark.slow
def test_methods_elsewhere_keep_the_laws_and_run(elsewhere):
    options = ["-p", "no:cacheprovider", "-W", "error", "-W", "ignore:`torch.jit.script`:DeprecationWarning"]
    for test in ("test_my_methods.py", "test_my_network.py"):
        assert "2 passed" in run(elsewhere, "pytest", *options, test, source=ROOT / "src")


def test_methods_elsewhere_keep_the_house_style(elsewhere):
    run(elsewhere, "ruff", "format", "--no-cache", "--check", "--config", str(ROOT / "pyproject.toml"), ".")
