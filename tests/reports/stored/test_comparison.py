import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

import fedgraft
from fedgraft.errors import InputError
from fedgraft.reports.stored.comparison import best_values, parse_target, render
from helpers.compared_runs import compare
from helpers.fake_runs import write_run
from helpers.tiny import TINY


def text_of(table: list[dict[str, object]], width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(render(table))
    return capture.get()


def test_a_row_a_run_ready_for_json(tmp_path: Path) -> None:
    good, bad = write_run(tmp_path / "good", end=0.95), write_run(tmp_path / "bad", end=1.05, cohort=3)
    first, second = json.loads(json.dumps(compare([good, bad], "rmse=1.0"), allow_nan=False))
    summary = json.loads((good / "summary.json").read_text())
    point = next(point for point in summary["curve"] if point[3] <= 1.0)
    assert first["run"] == "good"
    assert first["target"] == 1.0
    assert first["rounds_to_target"] == point[0]
    assert first["bytes_to_target"] == point[1]
    assert first["seconds_to_target"] == pytest.approx(point[2])
    assert first["bytes"] == summary["bytes"]["total"]
    assert first["baselines"] == summary["baselines"]
    costs = ("bytes", "rounds", "seconds", "simulated_seconds", "flops")
    assert {second[f"{cost}_to_target"] for cost in costs} == {None}


def test_the_default_target_is_reached_by_the_best(tmp_path: Path) -> None:
    table = compare([write_run(tmp_path / "a", end=0.95), write_run(tmp_path / "b", end=1.0)])
    assert [row["bytes_to_target"] is not None for row in table] == [True, False]
    assert all(row["target"] == table[0]["target"] for row in table)


@pytest.mark.parametrize(("better", "metric", "winner"), [("lower", "rmse", "a"), ("higher", "auc", "b")])
def test_the_best_is_marked(tmp_path: Path, better: str, metric: str, winner: str) -> None:
    shape = {"better": better, "metric": metric, "start": 1.4 if better == "lower" else 0.1}
    text = text_of(compare([write_run(tmp_path / name, end=end, **shape) for name, end in (("a", 0.8), ("b", 0.9))]))  # type: ignore[arg-type]
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    loser = "b" if winner == "a" else "a"
    assert lines[winner].count("*") == 6
    assert "*" not in lines[loser]
    assert "not reached" in lines[loser]
    assert f"Target: validation {metric}" in text
    assert "central_biases" in lines
    assert f"{metric}: {better} is better" in text


def test_a_table_of_eighty_columns_cuts_nothing(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "power_of_choice-seed1"), write_run(tmp_path / "b", end=1.05)]
    table = [{**row, "simulated_seconds_to_target": 725.0} for row in compare(runs)]
    text = text_of(table, width=80)
    assert "12 min 05 s" in text
    assert "…" not in text
    assert "validation" in text.splitlines()[2]
    assert "not reached" in text


SHAPES = {"far": {"end": 1.2}, "large": {"model_bytes": 90_000, "rounds": 6}, "small": {"model_bytes": 1000}}
"""Runs: one that never reaches 1.0, one in few rounds of many bytes, one in more rounds of few bytes."""


@pytest.mark.parametrize(
    ("against", "order"),
    [
        (None, ["far", "large", "small"]),
        ("rounds", ["large", "small", "far"]),
        ("bytes", ["small", "large", "far"]),
        ("simulated_seconds", ["large", "small", "far"]),
        ("flops", ["large", "small", "far"]),
    ],
)
def test_runs_are_ordered_by_the_cost_that_was_asked_for(tmp_path: Path, against: str | None, order: list[str]) -> None:
    runs = [write_run(tmp_path / name, **shape) for name, shape in SHAPES.items()]  # type: ignore[arg-type]
    table = compare(runs, "rmse=1.0", against)
    assert [row["run"] for row in table] == order, "who does not reach it comes last"


@pytest.mark.parametrize(
    ("against", "headings"),
    [
        (None, ["to target", "rounds", "seconds"]),
        ("simulated_seconds", ["seconds", "to target", "rounds"]),
        ("rounds", ["rounds", "to target", "seconds"]),
        ("flops", ["to target", "to target", "rounds"]),
    ],
)
def test_the_cost_that_was_asked_for_is_shown_first(tmp_path: Path, against: str | None, headings: list[str]) -> None:
    table = compare([write_run(tmp_path / "a"), write_run(tmp_path / "b", end=1.2)], "rmse=1.0", against)
    drawn = render(table, against=against)
    assert [str(column.header).split("\n")[-1] for column in drawn.columns][-3:] == headings
    assert str(list(drawn.columns[-3].cells)[1]) == "not reached"


def test_a_wrong_cost_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"against must be one of .* got 'byte'\. Did you mean 'bytes'"):
        compare([write_run(tmp_path / "a")], against="byte")


def test_nothing_is_best_alone_or_on_different_data(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a"), write_run(tmp_path / "b", dataset="epinions")
    assert "*" not in text_of(compare([a]))
    text = text_of(compare([a, b]))
    assert "*" not in text
    assert "Not the same data set" in text
    assert "epinions: global_mean" in text


def test_a_label_is_text_not_markup(tmp_path: Path) -> None:
    assert "[red]x" in text_of(compare([write_run(tmp_path / "[red]x")]))


def test_baselines_of_several_seeds_are_means(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / str(i), baselines={"majority": 0.4 + 0.2 * i, "mlp": None}) for i in range(2)]
    text = text_of(compare(runs))
    assert "majority (mean of 2)" in text
    assert "0.5000" in text
    assert "mlp" not in text


def test_a_target_is_read() -> None:
    assert parse_target("rmse=0.95", "rmse") == 0.95
    assert parse_target(" auc = .8 ", "auc") == 0.8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.95", r"--target must be METRIC=SCORE, such as rmse=0\.95; got '0\.95'"),
        ("rsme=0.95", r"--target: the metric must be one of .*; got 'rsme'\. Did you mean 'rmse'"),
        ("accuracy=0.9", "--target names 'accuracy', but these runs are scored by 'rmse'"),
        ("rmse=low", r"the score must be a number, such as rmse=0\.95; got 'rmse=low'"),
        ("rmse=nan", "the score must be a number"),
        ("rmse=", "the score must be a number"),
        ("=1", "the metric must be one of"),
    ],
)
def test_a_wrong_target_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_target(text, "rmse")


NONE = {"setup": 0, "probe": 0, "training": 0, "scoring": 0}


def test_failures_are_told_of_every_run_that_had_any(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "[red]x", counted={**NONE, "training": 2, "scoring": 5}),
        write_run(tmp_path / "b", counted={**NONE, "setup": 1}),
        write_run(tmp_path / "good", counted=NONE),
    ]
    table = compare(runs)
    assert [sum(row["failures"].values()) for row in table] == [7, 1, 0]
    text = " ".join(text_of(table).split())
    assert "[red]x: clients failed, 2 in training, 5 in scoring; a scoring that lacks clients has no score." in text
    assert "b: clients failed, 1 in setup." in text
    assert text.count("failed") == 2
    assert "failed" not in text_of(compare(runs[2:]))


def test_runs_on_other_data_are_said_first_and_none_is_best(finished_run: Path, tmp_path: Path) -> None:
    changes = {**TINY, "data.count": 500}
    other = fedgraft.run("fedacs", out=tmp_path / "other", overrides=changes, progress=False).folder
    table = compare([finished_run, other])
    assert not best_values(table)
    caption = str(render(table).caption)
    assert caption.startswith("Not the same data, or dealt and split differently: scores cannot be compared.")
    assert "* best" not in caption
    again = compare([other, shutil.copytree(other, tmp_path / "copy")])
    assert "Not the same" not in str(render(again).caption)


def test_runs_on_other_data_sets_have_no_target_in_common(tmp_path: Path) -> None:
    table = compare([write_run(tmp_path / "a"), write_run(tmp_path / "b", dataset="epinions")])
    assert [row["target"] for row in table] == [None, None]
    assert str(render(table).caption).startswith("Not the same data set: scores cannot be compared.")
    assert compare([tmp_path / "a", tmp_path / "b"], 1.0)[0]["target"] == 1.0, "who gives one knows why"
