"""Runs that begin with the model of another."""

import logging
import multiprocessing
import os
import shutil
import signal

import numpy as np
import pandas as pd
import pytest

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.running.warm_start import start_from
from fedgraft.experiment.storage.disk import read_model
from helpers.tiny import TINY
from helpers.toy_runs import toy
from helpers.two_shops import OPTIONS, ratings


def tiny(out, recipe="fedacs", start=None, **changes):
    overrides = {**TINY, "task.folds": 10, "baselines": [], **changes}  # so that training makes the model better
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
    given = {**TINY, "rounds": 6, "baselines": [], "training.schedule": "constant"}
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
    with pytest.raises(InputError, match=r"under sharing 'local' its clients share no parameters, which this run"):
        tiny(tmp_path / "run", start=alone)


def test_clients_that_share_nothing_go_on_with_their_own(tmp_path, caplog):
    changes = {"sharing.name": "local", "training.learning_rate": 0.05}
    alone = tiny(tmp_path / "alone", rounds=4, **changes)
    with caplog.at_level(logging.WARNING):
        run = tiny(tmp_path / "run", start=alone, **changes)
    assert "come by name, the parameters that 3 of 3 clients keep to themselves." in caplog.text
    drawn = tiny(tmp_path / "drawn", **changes).summary["curve"][0][3]
    assert run.summary["curve"][0][3] < drawn, "before the first round they know what they had learnt"


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_each_client_goes_on_with_parameters_of_its_own(tmp_path, caplog):
    changes = {"sharing.name": "fedper", "training.learning_rate": 0.05}
    own = tiny(tmp_path / "own", rounds=4, **changes)
    with caplog.at_level(logging.WARNING):
        run = tiny(tmp_path / "run", start=own, **changes)
    assert "those that 3 of 3 clients keep to themselves." in caplog.text
    for number, name in enumerate(own._finished.names):
        begun = run.experiment.begins.own[number]["private"]
        assert begun.keys() == {"out.weight", "out.bias"}
        model = dict(own.client_model(name).named_parameters())
        assert same(begun, {each: model[each].detach().numpy() for each in begun})
    drawn = tiny(tmp_path / "drawn", **changes).summary["curve"][0][3]
    assert run.summary["curve"][0][3] < drawn, "before the first round they know what they had learnt"


@pytest.mark.parametrize(
    ("sharing", "kept"), [("ditto", "personal"), pytest.param("fedala", "own", marks=pytest.mark.slow)]
)
def test_personal_models_go_on_too(tmp_path, sharing, kept):
    own = tiny(tmp_path / "own", rounds=3, **{"sharing.name": sharing})
    run = tiny(tmp_path / "run", start=own, **{"sharing.name": sharing})
    for number in range(len(own._finished.names)):
        begun, ended = run.experiment.begins.own[number]["sharing"], own._finished.memory(number)["sharing"]
        assert begun[kept]
        assert same(begun[kept], ended[kept])


def test_a_run_that_ended_before_its_first_checkpoint_begins_alike(tmp_path):
    own = tiny(tmp_path / "own", **{"sharing.name": "fedper"})
    run = tiny(tmp_path / "run", start=own, **{"sharing.name": "fedper"})
    shutil.rmtree(tmp_path / "own")
    for path in [*(tmp_path / "run" / "checkpoint").iterdir(), *(tmp_path / "run").glob("*.jsonl")]:
        path.unlink()
    (tmp_path / "run" / "summary.json").unlink()
    assert fedgraft.resume(tmp_path / "run", progress=False).summary["digest"] == run.summary["digest"]


def test_clients_are_known_by_their_names_and_new_ones_draw_theirs(tmp_path, caplog):
    options = {**OPTIONS, "sharing.name": "fedper", "baselines": []}

    def run(table, **more):
        data = {"ratings": table, "partition": "given"}
        return fedgraft.run("fedacs", data=data, overrides=options, progress=False, **more)

    first = run(ratings(), out=tmp_path / "first")
    more = ratings().replace({"client": {"south": "west"}})
    with caplog.at_level(logging.WARNING):
        second = run(pd.concat([more, ratings().assign(client="east")]), start=first, out=tmp_path / "second")
    assert "those that 1 of 3 clients keep to themselves; the other 2 begin with drawn ones." in caplog.text
    assert [second._finished.names[number] for number in second.experiment.begins.own] == ["north"]


def test_models_of_clients_go_on_on_top_of_a_shared_one(tmp_path, caplog):
    """CEFGL: Theta is shared; S, W and all that depends on a client's kinds and classes are its own."""
    changes = {"data": {"name": "molecules", "clients": 2, "graphs": 60}, "model.hidden": 4, "task.walks": 4}
    changes = {**changes, "rounds": 3, "runtime.workers": 0, "baselines": [], "sharing.probability": 1.0}

    def run(out, start=None, **more):
        return fedgraft.run("cefgl", out=out, start=start, overrides={**changes, **more}, progress=False)

    first = run(tmp_path / "first")
    with caplog.at_level(logging.WARNING):
        second = run(tmp_path / "second", first)
    assert "those that 2 of 2 clients keep to themselves." in caplog.text
    for number in range(2):
        then, begun = first._finished.memory(number), second.experiment.begins.own[number]
        assert same(begun["sharing"]["private"], then["sharing"]["private"])
        assert not any(array.any() for array in begun["sharing"]["correction"].values())
        assert begun["private"].keys() >= {"inputs.kind", "head.outer.weight"}
        assert same(begun["private"], {each: then["best"]["arrays"][each] for each in begun["private"]})
    with caplog.at_level(logging.WARNING):
        run(tmp_path / "third", first, **{"task.walks": 5})
    assert "those that 0 of 2 clients keep to themselves; the other 2 begin" in caplog.text, "shapes are others"


# --- rows that the other run was trained on ---------------------------------------------------------------------------


def own(table, out, start=None, **changes):
    options = {**OPTIONS, "baselines": [], "rounds": 1, **changes}
    data = {"ratings": table, "low": 1, "high": 5}
    return fedgraft.run("fedacs", data=data, overrides=options, progress=False, out=out, start=start)


def parts(run):
    shards = run.experiment.shards()
    return {
        split: {row for s in shards for row in s.hashes()[s.rows(split)]} for split in ("train", "test", "validation")
    }


def test_a_grown_table_is_split_by_the_other_runs_seed(tmp_path, caplog):
    rows = ratings().drop(columns="category")
    first = own(rows.iloc[:-24], tmp_path / "first", seed=3)
    second = own(rows.sample(frac=1, random_state=0), tmp_path / "second", first, seed=8)
    assert (
        f"24 of 240 rows are new since {tmp_path / 'first'}; none that it was trained on is scored." in caplog.messages
    )
    assert second.experiment.recipe.sections["data"]["split_seed"] == 3
    before, after = parts(first), parts(second)
    assert not before["train"] & (after["test"] | after["validation"])
    assert before["train"] <= after["train"]
    assert len(np.load(tmp_path / "second" / "seen.npy")) == 240
    assert (tmp_path / "second" / "seen.npy").stat().st_size <= 8 * 240 + 128


def test_rows_that_were_trained_on_are_not_scored_whatever_their_split_is_now(tmp_path, caplog):
    rows = ratings().drop(columns="category")
    said = np.array(["train", "train", "validation", "test"])
    first = own(rows.assign(split=said[np.arange(240) % 4]), tmp_path / "first")
    moved = rows.assign(split=said[(np.arange(240) + np.arange(240) // 60) % 4])
    second = own(moved, tmp_path / "second", first)
    before, after = parts(first), parts(second)
    assert not before["train"] & (after["test"] | after["validation"])
    assert after["test"]
    assert "rows that are for validation or test here were trained on by the run that this one begins" in caplog.text
    third = own(rows.assign(split=said[np.arange(240) % 4]), tmp_path / "third", second)
    seen = before["train"] | after["train"]
    assert not seen & (parts(third)["test"] | parts(third)["validation"]), "nor those of the run before"
    again = resume(tmp_path / "second")
    assert again["digest"] == second.summary["digest"]
    answers = second.predict(pd.DataFrame({"user": [3], "item": [4], "client": ["north"]}))
    assert len(answers) == 1


def test_a_run_that_leaves_no_row_to_score_is_an_error(tmp_path):
    rows = ratings().drop(columns="category")
    row = np.arange(240)
    first = own(
        rows.assign(split=np.where(row < 200, "train", np.where(row % 2, "test", "validation"))), tmp_path / "a"
    )
    late = rows.assign(split=np.where(row >= 200, "train", np.where(row % 2, "test", "validation")))
    with pytest.raises(InputError, match="No row is left for validation: all were trained on by the run that this one"):
        own(late, tmp_path / "b", first)


def test_a_run_that_does_not_say_its_rows_is_told(first, tmp_path, caplog):
    rows = ratings().drop(columns="category")
    other = own(rows, tmp_path / "a")
    (tmp_path / "a" / "seen.npy").unlink()
    own(rows, tmp_path / "b", other)
    assert "does not say which rows it was trained on" in caplog.text
    assert not (first.folder / "seen.npy").exists(), "of generated data nothing is stored"
    (tmp_path / "b" / "seen.npy").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"seen\.npy is damaged: it holds no array"):
        start_from(tmp_path / "b")


@pytest.mark.parametrize("recipe", ["links", "graft_node"])
def test_other_tasks_say_what_they_were_trained_on(recipe, tmp_path):
    g = np.random.default_rng(0)
    nodes = pd.DataFrame({"node": range(60), "label": g.integers(0, 2, 60), "x": g.normal(size=60), "client": 0})
    edges = pd.DataFrame(g.integers(0, 60, (300, 2)), columns=["source", "target"])
    options = {"rounds": 1, "baselines": [], "selector.name": "all", "runtime.workers": 0, "model.hidden": 4}

    def run(table, out, **more):
        data = {"nodes": nodes, "edges": table, "clients": 0}
        return fedgraft.run(recipe, data=data, overrides=options, progress=False, out=out, **more)

    first = run(edges.iloc[30:], tmp_path / "first", seed=4)
    second = run(edges, tmp_path / "second", start=first)
    told = [np.concatenate(each) for each in zip(*(s.parted() for s in first.experiment.shards()), strict=True)]
    now = [np.concatenate(each) for each in zip(*(s.parted() for s in second.experiment.shards()), strict=True)]
    assert not {*told[0][told[1] == 0]} & {*now[0][now[1] > 0]}
    assert (now[1] == 2).any()
