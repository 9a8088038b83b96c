"""Tiers of tests: what `make test` leaves out, .ci/run has in `make test-all`; the guide says what each guards."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
STEPS = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^(quick|test|test-all): \.venv.*\n\t(.*)$", MAKEFILE, re.MULTILINE))
CI = re.findall(r"^within \d+ make (test|test-all)(?: ARGS=\"(.*)\")?$", STEPS, re.MULTILINE)
MARKS = ("slow", "federation", "data")
MARKED = [dict(zip(MARKS, each, strict=True)) for each in itertools.product([False, True], repeat=len(MARKS))]


def chosen(*options):
    """Whether tests are chosen, for each set of marks: the last -m holds."""
    expression = [found for text in options for found in re.findall(r"-m '(.*?)'", text)][-1]
    return [eval(expression or "True", {}, marks) for marks in MARKED]


@pytest.mark.parametrize("mark", MARKS)
def test_marks_are_declared(mark):
    assert any(line.startswith(f"{mark}: ") for line in OPTIONS["markers"])


def test_the_usual_tier_leaves_out_what_is_long_and_all_tests_leave_out_nothing():
    usual = [not any(marks.values()) for marks in MARKED]
    assert chosen(OPTIONS["addopts"], RECIPES["test"]) == chosen(OPTIONS["addopts"], RECIPES["quick"]) == usual
    assert all(chosen(OPTIONS["addopts"], RECIPES["test-all"]))
    for tier in ("test", "test-all"):
        assert "tests/" not in RECIPES[tier], "no folder is left out"
    assert OPTIONS["testpaths"] == ["tests"]


def test_before_a_change_enters_each_test_is_run_once_but_for_slow_federations():
    runs = [chosen(OPTIONS["addopts"], RECIPES[tier], arguments) for tier, arguments in CI]
    assert [tier for tier, _ in CI] == ["test", "test-all"]
    by_hand = {"slow": True, "federation": True, "data": False}
    assert [sum(each) for each in zip(*runs, strict=True)] == [int(marks != by_hand) for marks in MARKED]


@pytest.mark.parametrize("tier", RECIPES)
def test_the_guide_says_what_a_tier_guards(tier):
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| `make {tier}` \|", guide, re.MULTILINE)
