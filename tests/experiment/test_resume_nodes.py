"""Runs whose clients wait for rows: the same bits on any number of workers, and after being killed again and again."""

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.experiment.experiment import load
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.reports.stored.stored_runs import StoredRun
from helpers.killed_runs import Killed, measured
from helpers.node_runs import OFTEN, SMALL
from helpers.toy_runs import same

EVERYTHING = {
    **SMALL,
    **OFTEN,
    "rounds": 4,
    "training.optimizer": "adam",
    "task.neighbours": 3,
    "task.dropout": 0.2,
    "rows": {"name": "quantized", "bits": 6, "rounding": "stochastic"},
    "codec": "identity",
    "downlink": "identity",
    "sharing.name": "scaffold",
    "checkpoint.every_seconds": 0,
}
"""Rows through a codec that draws, dropout in every segment, moments and memories of methods at every client."""
ASKED = {key: value for key, value in EVERYTHING.items() if not key.startswith("sampler.")} | {"sampler.batches": 2}


def content(folder):
    """All of a run that must not depend on where it ran, nor on how often it was interrupted."""
    store = RunFolder.open(folder)
    state, memories = store.load()
    return {
        "summary": measured(store.summary()),
        "ledger": (folder / "ledger.jsonl").read_text(),
        "model": (folder / "model.safetensors").read_bytes(),
        "halo_store": state.halo_store,
        "halos": state.halos,
        "memories": memories,
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    execute(load("fedais", EVERYTHING), folder)
    found = content(folder)
    assert found["halo_store"]["time"] > 0
    assert any((published > 0).any() for published in found["halo_store"]["published"])
    memories = [wire.unpack(memory) for client, memory in found["memories"].items() if client >= 0]
    trained = [each for each in memories if "states" in each]
    assert len(trained) >= 3
    assert all({"sampler", "sharing"} <= each.keys() for each in trained)
    assert all(np.unpackbits(each["states"]["known"][0]).any() for each in trained)
    assert all(each.keys() <= {"sampler", "sharing", "states", "uplink"} for each in trained), "no round is kept"
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_gives_the_same_bits(tmp_path, whole, workers):
    execute(load("fedais", {**EVERYTHING, "runtime.workers": workers}), tmp_path / "run")
    found = content(tmp_path / "run")
    assert all(same(found[part], whole[part]) for part in whole), [p for p in whole if not same(found[p], whole[p])]


def test_killed_again_and_again_a_run_ends_as_if_it_had_not_been(tmp_path, whole, dying):
    folder = tmp_path / "run"
    dying(14)
    with pytest.raises(Killed):
        execute(load("fedais", EVERYTHING), folder)
    for call in (7, 11):
        dying(call)
        with pytest.raises(Killed):
            resume(folder)
    dying(0)
    assert measured(resume(folder)) == whole["summary"]
    found = content(folder)
    assert all(same(found[part], whole[part]) for part in whole), [p for p in whole if not same(found[p], whole[p])]


def test_interrupted_in_one_process_a_run_is_taken_up_by_two(tmp_path, whole, dying):
    folder = tmp_path / "run"
    dying(22)
    with pytest.raises(Killed):
        execute(load("fedais", EVERYTHING), folder)
    dying(0)
    assert 0 < RunFolder.open(folder).load()[0].round < 4
    path = folder / "experiment.toml"
    path.write_text(path.read_text().replace("workers = 0", "workers = 2"))

    assert measured(resume(folder))["digest"] == whole["summary"]["digest"]
    found = content(folder)
    assert all(same(found[part], whole[part]) for part in whole), [p for p in whole if not same(found[p], whole[p])]


@pytest.mark.parametrize("recipe", ["fedall", "fedpns", "fedrandom"])
def test_rows_that_are_asked_for_survive_as_well(tmp_path, dying, recipe):
    expected = measured(execute(load(recipe, ASKED), tmp_path / "whole"))
    dying(26)
    with pytest.raises(Killed):
        execute(load(recipe, ASKED), tmp_path / "run")
    dying(0)
    assert 0 < RunFolder.open(tmp_path / "run").load()[0].round < 4
    assert measured(resume(tmp_path / "run")) == expected
    one, other = (content(tmp_path / name) for name in ("whole", "run"))
    assert not [part for part in one if not same(one[part], other[part])]


def test_what_scoring_at_clients_takes_survives_as_well(tmp_path, dying):
    at_clients = {**EVERYTHING, "evaluation.at": "clients", "evaluation.every": 1}
    execute(load("fedais", at_clients), tmp_path / "whole")
    dying(22)
    with pytest.raises(Killed):
        execute(load("fedais", at_clients), tmp_path / "run")
    dying(0)
    assert 0 < RunFolder.open(tmp_path / "run").load()[0].round < 4
    resume(tmp_path / "run")
    one, other = (content(tmp_path / name) for name in ("whole", "run"))
    assert not [part for part in one if not same(one[part], other[part])]


def test_operations_of_scoring_at_clients_are_entered_as_such_in_its_round(tmp_path):
    ledgers = {}
    for at in ("server", "clients"):
        summary = execute(load("fedais", {**SMALL, "evaluation.at": at, "rounds": 2}), tmp_path / at)
        run = StoredRun(tmp_path / at)
        ledgers[at] = run.ledger[run.ledger["flops"] > 0].set_index(["purpose", "round"])["flops"]
        assert ledgers[at].sum() == summary["flops"] == run.rounds["flops"].sum()
    assert ledgers["clients"]["training"].equals(ledgers["server"]["training"])
    assert "evaluation" not in ledgers["server"]
    assert set(ledgers["clients"]["evaluation"].index) == {2}, "every second round is scored"


def test_operations_of_codecs_do_not_depend_on_how_many_clients_a_process_serves(tmp_path):
    """A process decodes a model once for all of its clients; each is charged as if it had done so itself."""
    codecs = {"codec": {"name": "low_rank", "rank": 2}, "downlink": {"name": "low_rank", "rank": 2}, "rows": "identity"}
    plain, *coded = (
        execute(load("fedais", {**EVERYTHING, **changes, "runtime.workers": workers}), tmp_path / str(number))
        for number, (changes, workers) in enumerate([({"rows": "identity"}, 0), (codecs, 0), (codecs, 1), (codecs, 2)])
    )
    assert coded[0]["flops"] == coded[1]["flops"] == coded[2]["flops"] > plain["flops"]
