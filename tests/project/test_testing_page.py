"""The page on how to check a method from outside, followed to the letter in a folder of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedgraft
from fedgraft.testing import __all__ as public

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`([a-z_]+\.py)`:\n\n```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
PRINTED, MESSAGE = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What pytest says of the page's files."""
    folder = tmp_path_factory.mktemp("plug_in")
    for name, code in FILES.items():
        (folder / name).write_text(code)
    alone = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "-q", "-W", "error", *FILES],
        cwd=folder,
        env={**alone, "PYTHONPATH": str(Path(fedgraft.__file__).parents[1]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_page_s_tests_pass_and_print_what_it_says(said):
    assert list(FILES) == ["my_selectors.py", "test_my_selectors.py", "test_my_runtime.py"]
    passed = re.findall(r"^PASSED test_my_selectors.*$", said, re.MULTILINE)
    assert sorted(passed) == sorted(PRINTED.splitlines())
    assert "PASSED test_my_runtime.py::test_keeps_every_law" in said


@pytest.mark.slow
def test_the_message_is_what_a_checker_says(tmp_path, monkeypatch):
    (tmp_path / "my_selectors.py").write_text(FILES["my_selectors.py"])
    monkeypatch.syspath_prepend(tmp_path)
    from my_selectors import Spendthrift

    from fedgraft.testing import check_selector

    with pytest.raises(AssertionError) as caught:
        check_selector(Spendthrift)
    (line,) = [line for line in str(caught.value).splitlines() if "budget_is_a_promise" in line]
    told, shown = (re.sub(r"\d+", "N", text) for text in (line, MESSAGE.strip()))  # hypothesis finds the numbers
    assert told == shown


def test_every_checker_is_on_the_page():
    assert all(f"`{name}" in PAGE for name in public)
