"""Runs that begin with the model of another."""

import logging
import multiprocessing
import os
import shutil
import signal

import numpy as np
import pytest

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.disk import read_model
from fedgraft.experiment.runner import execute, resume
from fedgraft.experiment.warm_start import start_from
from helpers.tiny import TINY
from helpers.toy_runs import toy


def tiny(out, recipe="fedacs", start=None, **changes):
    overrides = {**TINY, "yardsticks": [], **changes}
    return fedgraft.run(recipe, out=out, start=start, overrides=overrides, progress=False)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("first") / "run", rounds=3)


def test_the_first_model_is_the_best_of_the_other_run(first, tmp_path):
    second = tiny(tmp_path / "run", start=first, rounds=2)
    begun = second.experiment.plan.first
    best = read_model(first.folder / "model.safetensors")
    assert begun.keys() == best.keys()
    assert all(np.array_equal(begun[name], best[name]) for name in best)
    assert second.history["validation"].iloc[0] != first.history["validation"].iloc[0]
    assert second.summary["curve"][0][3] == pytest.approx(first.summary["curve"][-1][3], abs=0.05), "it goes on there"
    assert second.summary["digest"] != tiny(tmp_path / "drawn", rounds=2).summary["digest"]


def test_it_may_see_other_data(first, tmp_path):
    assert tiny(tmp_path / "run", start=first.folder, **{"data.count": 500}).summary["rounds"] == 2


def test_a_run_that_began_so_resumes_to_the_same_bits(first, tmp_path):
    given = {**TINY, "rounds": 6, "yardsticks": [], "training.schedule": "constant"}
    whole = tiny(tmp_path / "whole", start=first, **given)
    tiny(tmp_path / "part", start=first, **{**given, "rounds": 2, "selector.min_selections": 0})
    shutil.rmtree(tmp_path / "unused", ignore_errors=True)
    assert fedgraft.resume(tmp_path / "part", progress=False, rounds=6).summary["digest"] == whole.summary["digest"]


def test_killed_it_resumes_with_its_first_model(tmp_path):
    execute(toy(rounds=2, seed=5), tmp_path / "other")
    expected = execute(toy(rounds=4), start=start_from(tmp_path / "other"))["digest"]
    assert expected != execute(toy(rounds=4))["digest"]
    context = multiprocessing.get_context("forkserver")
    changes = {"rounds": 4, "checkpoint": {"every_seconds": 0}}
    process = context.Process(target=die, args=(tmp_path / "run", changes, tmp_path / "other"))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert (tmp_path / "run" / "start.safetensors").exists()
    shutil.rmtree(tmp_path / "other")
    assert resume(tmp_path / "run")["digest"] == expected


def die(folder, changes, other):
    """Run until the second round is stored."""

    class Killer:
        def after_round(self, state, row):
            if state.round == 2:
                os.kill(os.getpid(), signal.SIGKILL)

    execute(toy(**changes), folder, Killer(), start=start_from(other))


def test_a_first_model_that_was_changed_is_refused(first, tmp_path):
    tiny(tmp_path / "run", start=first)
    path = tmp_path / "run" / "start.safetensors"
    shutil.copy(tmp_path / "run" / "model.safetensors", path)
    with pytest.raises(InputError, match=r"start.safetensors is damaged: it is not what the run's model began with"):
        fedgraft.resume(tmp_path / "run", progress=False)
    path.unlink()
    with pytest.raises(InputError, match=r"start.safetensors is missing"):
        fedgraft.resume(tmp_path / "run", progress=False)


@pytest.mark.parametrize(
    ("recipe", "changes", "message"),
    [
        (
            "fedacs",
            {"model.hidden": 8},
            r"--from .*run does not fit .*: model.hidden is 8 here and was \S+ there",
        ),
        ("fedacs", {"task.share": "nothing"}, r"does not fit this run: .*"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_what_differs(first, tmp_path, recipe, changes, message):
    with pytest.raises(InputError, match=message):
        tiny(tmp_path / "run", recipe, start=first, **changes)
    assert not (tmp_path / "run").exists()


def test_without_a_shared_model_there_is_nothing_to_begin_with(tmp_path):
    alone = tiny(tmp_path / "alone", **{"sharing.name": "local"})
    with pytest.raises(InputError, match=r"under sharing 'local' its clients share no parameters"):
        tiny(tmp_path / "run", start=alone)


def test_parameters_of_its_own_are_drawn_anew_and_a_note_says_so(tmp_path, caplog):
    own = tiny(tmp_path / "own", **{"sharing.name": "fedper"})
    with caplog.at_level(logging.WARNING):
        tiny(tmp_path / "run", start=own, **{"sharing.name": "fedper"})
    assert "those that each client keeps to itself, such as" in caplog.text
