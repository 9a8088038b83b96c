"""Trackers against their own libraries, offline; callbacks."""

import json
import sys
from pathlib import Path

import pytest

import fedgraft as library
from fedgraft.errors import InputError
from fedgraft.interface import trackers
from helpers.tiny import ARGUMENTS, TINY

SHOPS = {"name": "shops", **{key[5:]: value for key, value in TINY.items() if key.startswith("data.")}}
QUICK = {"data": SHOPS, "rounds": 2, "runtime": {"workers": 0}, "baselines": ["global_mean"], "progress": False}


def test_a_callback_hears_of_every_round(tmp_path: Path) -> None:
    heard = []
    run = library.run("fedacs", out=tmp_path / "run", on_round=lambda row: heard.append(row.validation), **QUICK)
    assert heard == list(run.history["validation"])


def test_what_a_callback_raises_ends_the_run_which_goes_on(tmp_path: Path) -> None:
    def stop(row: object) -> None:
        raise ValueError("enough")

    whole = library.run("fedacs", **QUICK)
    with pytest.raises(ValueError, match="enough"):
        library.run("fedacs", out=tmp_path / "run", on_round=[stop], **QUICK)
    assert library.resume(tmp_path / "run", progress=False).summary["digest"] == whole.summary["digest"]


def test_tensorboard(fedgraft, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    done = fedgraft("run", "fedacs", *ARGUMENTS, "--out", "run", "--track", "tensorboard", "--json", "-q")
    assert done.code == 0, done.err
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    rows = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    assert [event.value for event in events.Scalars("validation")] == pytest.approx([r["validation"] for r in rows])
    assert events.Scalars("baseline_global_mean")[0].value > 0


@pytest.mark.slow
def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    run = library.run("fedacs", out=tmp_path / "run", track="mlflow", **QUICK)
    (found,) = mlflow.MlflowClient().search_runs(["0"])
    assert found.info.run_name == "run"
    assert found.data.params["selector.name"] == "fedacs"
    assert found.data.metrics["test_at_best_validation"] == run.summary["test_at_best_validation"]
    assert len(mlflow.MlflowClient().get_metric_history(found.info.run_id, "validation")) == 2


@pytest.mark.slow
def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = library.run("fedacs", out=tmp_path / "run", track=["wandb"], **QUICK)
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb"))
    assert library.open(tmp_path / "run").summary["digest"] == run.summary["digest"]


def test_a_tracker_that_breaks_does_not_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def track(figures: object, round: int) -> None:
        raise OSError("no network")

    monkeypatch.setitem(trackers.TRACKERS, "json", lambda experiment, folder: trackers.Tracker(track, lambda: None))
    run = library.run("fedacs", out=tmp_path / "run", track="json", **QUICK)
    assert len(run.history) == 2
    assert caplog.text.count("json does not follow the run any more: no network") == 1


def test_a_tracker_that_is_none_or_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"No tracker named 'tensorbord'\. Did you mean 'tensorboard'"):
        library.run("fedacs", track="tensorbord", **QUICK)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match=r"--track wandb needs the package wandb: pip install"):
        library.run("fedacs", track="wandb", **QUICK)
