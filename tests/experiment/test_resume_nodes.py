"""Runs whose clients wait for rows: the same bits on any number of workers, and after being killed again and again."""

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.experiment.job import load
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
    "exchange.neighbours": 3,
    "loss.dropout": 0.2,
    "rows": {"name": "quantized", "bits": 6, "rounding": "stochastic"},
    "codec": "identity",
    "downlink": "identity",
    "sharing.name": "scaffold",
    "checkpoint.every_seconds": 0,
}
"""Rows through a codec that draws, dropout in every segment, moments and memories of methods at every client."""
AT_CLIENTS = {**EVERYTHING, "evaluation.at": "clients", "evaluation.every": 1}
ASKED = {key: value for key, value in EVERYTHING.items() if not key.startswith("sampler.")} | {"sampler.batches": 2}


WRITES = 14, 22, 26
"""Those to disk at which runs are killed: early, and in the midst of their rounds."""


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


def differ(one, other):
    """Parts of two runs that are not equal."""
    return [part for part in one if not same(one[part], other[part])]


@pytest.fixture(scope="module")
def run(whole_run):
    return whole_run(load("fedais", EVERYTHING), WRITES)


@pytest.fixture(scope="module")
def whole(run):
    found = content(run.folder)
    assert found["halo_store"]["time"] > 0
    assert any((published > 0).any() for published in found["halo_store"]["published"])
    memories = [wire.unpack(memory) for client, memory in found["memories"].items() if client >= 0]
    trained = [each for each in memories if "states" in each]
    assert len(trained) >= 3
    assert all({"sampler", "sharing"} <= each.keys() for each in trained)
    assert all(np.unpackbits(each["states"]["known"][0]).any() for each in trained)
    assert all(each.keys() <= {"sampler", "sharing", "states", "uplink"} for each in trained), "no round is kept"
    return found


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_any_number_of_workers_gives_the_same_bits(tmp_path, whole, workers):
    execute(load("fedais", {**EVERYTHING, "runtime.workers": workers}), tmp_path / "run")
    assert not differ(whole, content(tmp_path / "run"))


@pytest.mark.parametrize("kills", [(), pytest.param((7, 11), marks=pytest.mark.slow)], ids=["once", "again and again"])
def test_killed_a_run_ends_as_if_it_had_not_been(tmp_path, run, whole, dying, kills):
    folder = run.killed(14, tmp_path / "run")
    for call in kills:
        dying(call)
        with pytest.raises(Killed):
            resume(folder)
    dying(0)
    assert measured(resume(folder)) == whole["summary"]
    assert not differ(whole, content(folder))


@pytest.mark.slow
def test_interrupted_in_one_process_a_run_is_taken_up_by_two(tmp_path, run, whole):
    folder = run.killed(22, tmp_path / "run")
    assert 0 < RunFolder.open(folder).load()[0].round < 4
    path = folder / "experiment.toml"
    path.write_text(path.read_text().replace("workers = 0", "workers = 2"))

    assert measured(resume(folder))["digest"] == whole["summary"]["digest"]
    assert not differ(whole, content(folder))


@pytest.mark.parametrize(
    "recipe", ["fedall", *(pytest.param(name, marks=pytest.mark.slow) for name in ("fedpns", "fedrandom"))]
)
def test_rows_that_are_asked_for_survive_as_well(whole_run, tmp_path, recipe):
    run = whole_run(load(recipe, ASKED), WRITES)
    folder = run.killed(26, tmp_path / "run")
    assert 0 < RunFolder.open(folder).load()[0].round < 4
    assert measured(resume(folder)) == run.summary
    assert not differ(content(run.folder), content(folder))


def test_what_scoring_at_clients_takes_survives_as_well(whole_run, tmp_path):
    run = whole_run(load("fedais", AT_CLIENTS), WRITES)
    folder = run.killed(22, tmp_path / "run")
    assert 0 < RunFolder.open(folder).load()[0].round < 4
    resume(folder)
    assert not differ(content(run.folder), content(folder))


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


@pytest.mark.slow
def test_operations_of_codecs_do_not_depend_on_how_many_clients_a_process_serves():
    """A process decodes a model once for all of its clients; each is charged as if it had done so itself."""
    codecs = {"codec": {"name": "low_rank", "rank": 2}, "downlink": {"name": "low_rank", "rank": 2}, "rows": "identity"}
    plain, *coded = (
        execute(load("fedais", {**EVERYTHING, **changes, "runtime.workers": workers}))
        for changes, workers in (({"rows": "identity"}, 0), (codecs, 0), (codecs, 1), (codecs, 2))
    )
    assert coded[0]["flops"] == coded[1]["flops"] == coded[2]["flops"] > plain["flops"]
