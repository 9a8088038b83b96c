import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from fedgraft.errors import InputError
from fedgraft.reports.stored.stored_runs import StoredRun, default_target, open_runs
from helpers.fake_runs import ENVIRONMENT, WORK, write_run


def edit_summary(folder: Path, **changes: Any) -> None:
    path = folder / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_run_is_read_back_as_tables(tmp_path: Path) -> None:
    run = StoredRun(write_run(tmp_path / "a", clients=5, cohort=2, rounds=10))
    assert run.label == "a"
    assert (run.metric, run.better, run.clients) == ("rmse", "lower", 5)
    assert list(run.curve.columns) == [
        *("round", "bytes", "seconds", "validation", "test", "flops", "simulated_seconds")
    ]
    assert run.curve["round"].tolist() == list(range(11))
    assert run.curve["flops"].tolist() == [WORK * round for round in range(11)]
    assert list(run.rounds["round"]) == list(range(1, 11))
    assert run.rounds["failed"][4] == {run.rounds["selected"][4][0]: "no reply within 30 s"}
    before_first = run.ledger.loc[run.ledger["round"] == 0, "bytes"].sum()
    assert before_first == 5 * 2 * 40
    assert run.rounds["bytes"].sum() == 20 * 10_060 + 18 * 10_084
    assert run.ledger["bytes"].sum() == run.summary["bytes"]["total"]
    assert run.experiment["selector"] == {"name": "fedacs", "cohort": 2}
    assert run.environment == ENVIRONMENT


def test_terms_are_read_back_by_the_numbers_of_clients(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", rounds=2, explanation=lambda round, chosen: {"score": {0: 0.5, 3: round + 0.25}})
    assert list(StoredRun(folder).rounds["explanation"]) == [{"score": {0: 0.5, 3: 1.25}}, {"score": {0: 0.5, 3: 2.25}}]


def test_rounds_without_a_score_are_nan_and_not_in_the_curve(tmp_path: Path) -> None:
    run = StoredRun(write_run(tmp_path / "a", rounds=7, every=3))
    assert run.curve["round"].tolist() == [0, 3, 6, 7]
    assert run.rounds["validation"].isna().tolist() == [True, True, False, True, True, False, False]


def test_reaching_is_the_first_point_that_is_good_enough(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", rounds=3)
    curve = [[0, 10, 0.0, 1.2, 1.2, 0, 0.0], [1, 20, 1.0, None, None, 1, 1.0], [2, 30, 2.0, 1.0, 1.1, 2, 2.0]]
    edit_summary(folder, curve=[*curve, [3, 40, 3.0, 0.9, 1.1, 3, 3.0]])
    run = StoredRun(folder)
    point = run.reaching(1.0)
    assert point is not None
    assert point["bytes"] == 30
    assert run.reaching(0.89) is None
    assert run.best_validation == 0.9
    assert default_target([run]) == pytest.approx(0.9018)


def test_the_default_target_is_reached_where_higher_is_better(tmp_path: Path) -> None:
    shape = {"metric": "auc", "better": "higher", "start": 0.5}
    runs = open_runs([write_run(tmp_path / str(i), end=0.8 + i / 100, seed=i, **shape) for i in range(3)])  # type: ignore[arg-type]
    target = default_target(runs)
    assert target < max(run.best_validation for run in runs)
    assert [run.reaching(target) is not None for run in runs] == [False, False, True]


def test_labels_tell_runs_apart(tmp_path: Path) -> None:
    runs = open_runs([write_run(tmp_path / "x" / "a"), write_run(tmp_path / "y" / "a")])
    assert [run.label for run in runs] == ["x/a", "y/a"]


def test_a_run_is_given_once(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    with pytest.raises(InputError, match="is given twice"):
        open_runs([folder, tmp_path / "." / "a"])
    with pytest.raises(InputError, match="at least one"):
        open_runs([])


def test_different_metrics_are_not_compared(tmp_path: Path) -> None:
    other = write_run(tmp_path / "b", metric="auc", better="higher")
    with pytest.raises(InputError, match=r"different metrics.*/a has 'rmse' \(lower.*/b has 'auc' \(higher"):
        open_runs([write_run(tmp_path / "a"), other])


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        StoredRun(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"has no experiment\.toml"):
        StoredRun(tmp_path)
    with pytest.raises(InputError, match=r"no summary\.json yet; finish it with 'fedgraft resume"):
        StoredRun(write_run(tmp_path / "a", finished=False))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": 3}, "metric is '3'"),
        ({"recipe": "half \ud800"}, "recipe is"),
        ({"better": "best"}, "better is 'best'"),
        ({"rounds": -1}, "rounds is '-1'"),
        ({"seconds": None}, "seconds is 'None'"),
        ({"test": "good"}, "test is 'good'"),
        ({"bytes": {"total": 3}}, "bytes is"),
        ({"curve": []}, "curve is"),
        ({"curve": [[1, 2, 3.0]]}, "curve is"),
        ({"curve": [[1, 2, 3.0, None, None, None, 4.0]]}, "curve is"),
        ({"failures": None}, "failures is"),
        ({"scored": None}, "scored is"),
        ({"baselines": {"mean": "x"}}, "baselines is"),
    ],
)
def test_a_damaged_summary_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    folder = write_run(tmp_path / "a", rounds=2)
    edit_summary(folder, **changes)
    with pytest.raises(InputError, match=rf"summary\.json is damaged: {message}"):
        StoredRun(folder)


@pytest.mark.parametrize("content", ["{", "[]", '{"recipe": "x"}'])
def test_half_a_summary_is_named(tmp_path: Path, content: str) -> None:
    folder = write_run(tmp_path / "a", rounds=2)
    (folder / "summary.json").write_text(content)
    with pytest.raises(InputError, match=r"summary\.json is damaged"):
        StoredRun(folder)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", rounds=2)
    rows, entries = (folder / "rounds.jsonl").read_text(), (folder / "ledger.jsonl").read_text()
    for name, content, message in [
        ("rounds.jsonl", rows[: rows.index("\n") + 1], r"rounds\.jsonl is damaged: it has 1 rounds, summary\.json 2"),
        ("rounds.jsonl", "{}\n", r"rounds\.jsonl is damaged: line 1 has no round, selected"),
        ("rounds.jsonl", rows.replace("}\n", "\n"), r"rounds\.jsonl.* is damaged"),
        ("rounds.jsonl", rows.replace('"failed": {}', '"failed": 3'), r"rounds\.jsonl is damaged"),
        ("ledger.jsonl", entries + entries, r"ledger\.jsonl is damaged: its entries sum to \d+ bytes, summary\.json"),
        ("ledger.jsonl", entries.replace("header", "head"), r"ledger\.jsonl is damaged: purpose 'head' is none of"),
        ("ledger.jsonl", "\xff\n", r"ledger\.jsonl.* is damaged"),
        ("ledger.jsonl", "[]\n", r"ledger\.jsonl, line 1 is damaged: it holds no table"),
        ("ledger.jsonl", entries.replace('"header"', '["header"]'), r"ledger\.jsonl is damaged: purpose \['header'\]"),
        *(
            ("ledger.jsonl", entries.replace(": 40", f": {value}"), r"ledger\.jsonl is damaged: bytes is not a whole")
            for value in ("-40", "40.5", '"40"', "true", "null", "18446744073709551615", "1" + 30 * "0", "[40]")
        ),
        ("rounds.jsonl", "3\n", r"rounds\.jsonl, line 1 is damaged: it holds no table"),
        ("rounds.jsonl", rows.replace('"round": 1', '"round": "1"'), "line 1: round is '1'"),
        ("rounds.jsonl", rows.replace('"selected": [', '"selected": [-1, '), r"line 1: selected is '\[-1"),
        ("rounds.jsonl", rows.replace('"failed": {}', '"failed": {"x": ""}'), "line 1: failed is"),
        ("rounds.jsonl", rows.replace('"loss": 1.0', '"loss": NaN'), "line 1: loss is 'nan'"),
        ("rounds.jsonl", rows.replace('"seconds": 0.2', '"seconds": null'), "line 1: seconds is 'None'"),
        *(
            ("rounds.jsonl", rows.replace('"explanation": {}', f'"explanation": {value}'), "line 1: explanation is ")
            for value in ("3", '{"score": 1}', '{"score": {"x": 1}}', '{"score": {"0": "1"}}', '{"score": {"0": NaN}}')
        ),
        ("environment.json", "", r"environment\.json is damaged"),
        ("environment.json", "[]", r"environment\.json is damaged: it holds no table"),
    ]:
        before = (folder / name).read_text()
        (folder / name).write_text(content)
        run = StoredRun(folder)
        with pytest.raises(InputError, match=message):
            _ = run.rounds, run.ledger, run.environment
        (folder / name).write_text(before)
    (folder / "ledger.jsonl").unlink()
    with pytest.raises(InputError, match=r"ledger\.jsonl is missing"):
        _ = StoredRun(folder).ledger
    for content, message in [("[", "Invalid"), ("", r"it is empty\.$")]:
        (folder / "experiment.toml").write_text(content)
        with pytest.raises(InputError, match=rf"experiment\.toml is damaged: {message}"):
            StoredRun(folder)


@pytest.mark.parametrize(("name", "read"), [("environment.json", "environment"), ("model.safetensors", "shared_bytes")])
def test_a_missing_file_is_called_missing(tmp_path: Path, name: str, read: str) -> None:
    run = StoredRun(write_run(tmp_path / "a", rounds=2))
    (run.path / name).unlink()
    with pytest.raises(InputError, match=rf"a/{name} is missing\.$"):
        getattr(run, read)


@pytest.mark.parametrize(
    "name", ["experiment.toml", "summary.json", "environment.json", "rounds.jsonl", "ledger.jsonl"]
)
def test_what_is_no_utf_8_is_damaged(tmp_path: Path, name: str) -> None:
    path = write_run(tmp_path / "a", rounds=2) / name
    path.write_bytes(b"\xff" + path.read_bytes())
    with pytest.raises(InputError, match=rf"{name}(, line 1)? is damaged: it is not UTF-8 text"):
        _ = (run := StoredRun(tmp_path / "a")).environment, run.rounds, run.ledger


def test_a_model_is_what_was_written(tmp_path: Path) -> None:
    run = StoredRun(write_run(tmp_path / "a", rounds=2))
    assert run.shared_bytes == 20_000
    path = tmp_path / "a" / "model.safetensors"
    content = path.read_bytes()
    for changed in (content[:-1] + b"\x01", content[:50], b"", b"x" * 60, content.replace(b"F32", b"F64", 1)):
        path.write_bytes(changed)
        with pytest.raises(InputError, match=r"model\.safetensors is damaged: "):
            _ = StoredRun(tmp_path / "a").shared_bytes
    path.write_bytes(save({"weight": np.zeros(3, np.float32)}))
    with pytest.raises(InputError, match=r"model\.safetensors is damaged: its arrays are not those"):
        _ = StoredRun(tmp_path / "a").shared_bytes
