"""Attacks are tried, counted and told; what an attack may find is caught where it happens."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from fedgraft.errors import InputError
from helpers.benchmarks import importable, load

QUICK = ("trees", "messages", "codecs", "requests", "replies", "budgets", "liars")
"""Kinds of which one try takes a moment; others start processes, or whole runs in folders."""
SLOW = ("damaged", "tampered", "kills", "kills_at_operations", "little_memory", "no_room", "read_only", "signalled")
SLOW += ("together", "code", "shown")


@pytest.fixture(scope="module")
def attack():
    with importable():
        yield load("attack")


@pytest.fixture(scope="module")
def outcomes(attack):
    return load("attacks.outcomes")


def test_these_are_all_kinds(attack):
    assert {kind.name for kind in attack.KINDS} == {*QUICK, *SLOW}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_one_try_of_each_kind_fails_nowhere(attack, tmp_path, name):
    kind = next(kind for kind in attack.KINDS if kind.name == name)
    found = attack.attacked(kind, 0, 1, tmp_path)
    assert not found.said
    assert found.tried == 1 or (name, found.tried) == ("read_only", 0), "where nothing may be mounted"


def test_a_seed_gives_the_same_tries(attack, tmp_path):
    made = load("attacks.mutations")
    one, two = ([made.bytes_changed([bytes(40)], np.random.default_rng(3)) for _ in range(9)] for _ in range(2))
    assert one == two
    assert len({made.bytes_changed([bytes(40)], g) for g in [np.random.default_rng(3)] for _ in range(50)}) > 25


def test_a_call_is_judged_by_what_it_does(outcomes):
    def judged(call, **options):
        return outcomes.outcome(call, (InputError,), **options)

    def refuse(text):
        raise InputError(text)

    assert judged(lambda: "") == outcomes.HELD
    assert judged(lambda: refuse("no such file")) == outcomes.REFUSED
    assert judged(lambda: refuse("")).what == "crash", "an error must say something"
    assert judged(lambda: "another digest") == outcomes.Outcome("wrong", "another digest")
    assert judged(lambda: 1 / 0) == outcomes.Outcome("crash", "ZeroDivisionError: division by zero")
    assert judged(lambda: time.sleep(5), seconds=0.01).what == "hang"
    assert judged(lambda: str(len(bytearray(10**6)))[:0], most_bytes=10**5).what == "memory"
    assert judged(lambda: str(len(bytearray(10**6)))[:0], most_bytes=10**7) == outcomes.HELD


def test_the_end_of_a_command_is_judged_by_code_and_words():
    wrong = load("attacks.children").wrong
    assert wrong(0, "", (0,)) == ""
    assert wrong(2, "error: no room", (0, 2)) == ""
    assert wrong(2, "", (0, 2)) == "it ends with 2 and says nothing"
    assert wrong(1, "error: x", (0, 2)) == "exit code 1: error: x"
    assert wrong(1, "Traceback (most recent call last):\nKeyError: 3", (0, 1)) == "a traceback: KeyError: 3"
    assert wrong(None, "", (0,)).startswith("hang")


def test_the_table_says_what_failed_and_the_command_ends_with_1(attack, outcomes, tmp_path, monkeypatch, capsys):
    def tries(g, folder):
        assert list(folder.iterdir()) == []
        (folder / "x").write_text("")
        yield from [outcomes.HELD, outcomes.REFUSED, outcomes.REFUSED]
        yield from [outcomes.Outcome("crash", f"KeyError: {number} (loop.py:7)") for number in range(5)]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(load("sys").modules, "attacks.made_up", SimpleNamespace(tries=tries))
    kinds = [attack.Kind("made_up:tries", share, "made up", "0 of 9") for share in (1, 2)]
    monkeypatch.setattr(attack, "KINDS", kinds)
    page = tmp_path / "page.md"
    page.write_text(f"# A\n\n{attack.BEGIN}\n\nold\n\n{attack.END}\n\nrest\n")
    with pytest.raises(SystemExit, match="1"):
        attack.main(["--minutes", "0.1", "--page", str(page)])
    row = "| made up | 8 | 2 | 0 of 9 | 5 (5 crash) |"
    captured = capsys.readouterr()
    assert captured.out.count(row) == page.read_text().count(row) == 2
    assert captured.out.count("- tries, 5: `crash: KeyError: # (loop.py:#)`") == 2
    assert captured.err.count("crash: KeyError: 4") == 0, "two of a kind are told as they come"
    assert (page.read_text().startswith("# A"), page.read_text().endswith("rest\n")) == (True, True)
    assert list((tmp_path / "runs").iterdir()) == [], "what attacks wrote is taken away"
