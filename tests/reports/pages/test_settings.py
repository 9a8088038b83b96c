"""What differs between runs, in the words of a recipe."""

from pathlib import Path

from fedgraft.reports.pages.outcome import differences, written
from fedgraft.reports.stored.stored_runs import open_runs
from helpers.fake_runs import write_run

ONE = 'rounds = 2\n[selector]\nname = "random"\n[codec]\nname = "quantized"\nbits = 4\n[task]\nbaselines = ["mlp"]\n'
OTHER = 'rounds = 3\n[selector]\nname = "fedacs"\nexploration = 2.0\n[task]\nbaselines = []\n'


def test_options_of_a_method_that_only_one_has_are_said_by_its_name(tmp_path: Path) -> None:
    runs = open_runs([write_run(tmp_path / "a", toml=ONE), write_run(tmp_path / "b", toml=OTHER)])
    assert differences(runs) == {
        "codec.name": ["quantized", "-"],
        "rounds": ["2", "3"],
        "selector.name": ["random", "fedacs"],
        "task.baselines": ['["mlp"]', "[]"],
    }


def test_values_are_written_as_in_a_recipe() -> None:
    assert written([{"name": "low_rank", "rank": 4}, "x"]) == '[{name = "low_rank", rank = 4}, "x"]'
    assert written(["/home/me/a.csv", True]) == '["a.csv", true]'
