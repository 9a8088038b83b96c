"""Whole runs whose clients keep their optimisers' moments: killed, resumed, on workers, with rounds that pause."""

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage.run_folder import RunFolder
from helpers.node_runs import SMALL
from helpers.resumed_runs import KILL, resumed_alike, worked_alike
from helpers.toy_runs import remembered, run, same, scripted, toy

KEPT = {"training.keep_moments": True, "training.proximal": 0.1, "checkpoint.every_seconds": 0}
MOLECULES = {"data.name": "molecules", "data.clients": 4, "data.graphs": 20, "model.hidden": 8, "rounds": 6}
CASES = {
    "staged, silent and private": ("cefgl", {**MOLECULES, "baselines": []}),
    "pausing for halo rows": ("fedais", SMALL),
    "written by hand, and others at the server": ("fedall", {**SMALL, "server_optimizer.name": "fedyogi"}),
}
ADAM = {"optimizer": "adam", "learning_rate": 0.05}


@pytest.fixture(params=sorted(CASES))
def case(request):
    recipe, changes = CASES[request.param]
    return load(recipe, {**changes, **KEPT, "runtime.workers": 0})


def moments_of(folder):
    """{client: the moments in its memory} of a stored run."""
    _, memories = RunFolder.open(folder).load()
    return {client: wire.unpack(memory).get("moments") for client, memory in memories.items() if client >= 0 and memory}


def test_killed_a_run_ends_as_if_it_had_not_been(case, whole_run, tmp_path):
    resumed_alike(whole_run, case, tmp_path / "run")
    whole, resumed = (moments_of(folder) for folder in (whole_run(case, (KILL,)).folder, tmp_path / "run"))
    assert any(whole.values())
    assert same(resumed, whole)


def test_workers_make_no_difference(case, whole_run):
    worked_alike(whole_run, case)


def test_both_change_what_is_learnt(case):
    short = case.with_changes({"rounds": 2})
    digests = {
        execute(short.with_changes({"training.keep_moments": kept, "training.proximal": mu}))["digest"]
        for kept, mu in ((False, 0.0), (True, 0.0), (False, 0.1), (True, 0.1))
    }
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("options", "names"), [(ADAM, {"step", "exp_avg", "exp_avg_sq"}), ({"momentum": 0.9}, {"step", "momentum_buffer"})]
)
def test_moments_of_who_is_not_selected_stay_as_they_were(options, names):
    training = {"optimizer": "sgd", "learning_rate": 0.05, "keep_moments": True, **options}
    cohorts = [(0, 1), (1, 2), (1, 2)]
    after = {}
    for rounds in (1, 3):
        _, _, runtime = run(toy(selector=scripted(*cohorts[:rounds]), rounds=rounds, training=training))
        memories = remembered(runtime)
        after[rounds] = {client: wire.unpack(memory)["moments"] for client, memory in memories.items() if memory}
    assert (after[1].keys(), after[3].keys()) == ({0, 1}, {0, 1, 2})
    assert same(after[1][0], after[3][0])
    assert not same(after[1][1], after[3][1])
    assert after[3][1][0].keys() == names
    if options is ADAM:
        assert [after[3][client][0]["step"] for client in (0, 1, 2)] == [1, 3, 2]


@pytest.mark.parametrize("tried", [0, 2])
def test_probes_and_trials_leave_moments_alone(tried):
    def moments(**probing):
        selector = scripted((0, 1), (0, 2), (1, 2), **probing)
        _, _, runtime = run(toy(selector=selector, training={**ADAM, "keep_moments": True}))
        return {c: wire.unpack(memory).get("moments") for c, memory in remembered(runtime).items() if memory}

    plain, probed = moments(), moments(probed=[0, 1, 2, 3], tried=tried)
    assert probed.pop(3) is None
    assert same(probed, plain)


def test_rounds_of_one_client_alone_are_one_run_with_momentum():
    # One client with momentum 0.5 and rate 0.1 whose model is its own: its rounds are one run of SGD with momentum.
    training = {"optimizer": "sgd", "learning_rate": 0.1, "schedule": "constant", "momentum": 0.5}
    data = {"name": "helpers.toy:Lines", "clients": 1}
    kept, _, runtime = run(toy(data=data, rounds=4, training={**training, "keep_moments": True}))
    straight, _, _ = run(toy(data=data, rounds=1, training={**training, "epochs": 4}))
    for name, array in straight.sharing["model"].items():
        np.testing.assert_allclose(kept.sharing["model"][name], array, rtol=1e-5)
    (memory,) = remembered(runtime).values()
    assert wire.unpack(memory)["moments"][0]["momentum_buffer"].shape == (4,)
