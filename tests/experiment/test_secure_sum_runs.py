"""Runs whose updates are masked: the same bits wherever clients are, through kills, and nothing bare on the way."""

import json

import numpy as np
import pytest

from fedgraft.engine.client.masking import Masking
from fedgraft.engine.protocol import masking_kinds
from fedgraft.experiment.job import load
from fedgraft.experiment.running import runner
from fedgraft.methods.agreed_scales import AgreedScales
from fedgraft.runtimes.federation.audit import FILE
from helpers.killed_runs import Killed, dying  # noqa: F401
from helpers.local_sites import federated_files, traffic

CHANGES = {
    "data.name": "blocks",
    "data.nodes": 150,
    "data.clients": 4,
    "data.features": 8,
    "model.hidden": 8,
    "rounds": 3,
    "baselines": [],
    "codec.name": "quantized",
    "codec.scale": "agreed",
    "codec.rounding": "stochastic",
    "evaluation.at": "clients",
    "checkpoint.every_seconds": 0,
    "runtime.workers": 0,
}
MASKED = {**CHANGES, "secure_sum.name": "secagg"}
SIGNED = {**MASKED, "secure_sum.signed": True}


@pytest.fixture(scope="module")
def clear(tmp_path_factory):
    """The summary of a run without masks."""
    return run({**CHANGES, "secure_sum.name": "clear"}, tmp_path_factory.mktemp("clear") / "run")


def run(changes, folder):
    return runner.execute(load("plain_gcn", changes), folder)


def same(found, expected):
    """Whether two summaries are of one model and its scores."""
    keys = ("digest", "validation", "test", "measures", "test_per_client", "failures")
    return all(found[key] == expected[key] for key in keys)


def test_baselines_are_those_of_a_run_that_adds_nothing_up(tmp_path):
    """Each alone trains without a sum, whose cohort would be too small."""
    found = run({**MASKED, "rounds": 2, "baselines": ["local_only"]}, tmp_path / "run")
    plain = run({**CHANGES, "rounds": 2, "codec.scale": "max", "baselines": ["local_only"]}, tmp_path / "plain")
    assert found["baselines"] == plain["baselines"]
    assert set(found["test_per_client"].values()) == {None}, "nobody tells its own score"
    assert found["test"] is not None


@pytest.mark.parametrize(("changes", "workers"), [(MASKED, 0), (SIGNED, 2)])
def test_a_masked_run_is_the_clear_one_on_one_machine(changes, workers, clear, tmp_path):
    assert same(run({**changes, "runtime.workers": workers}, tmp_path / "run"), clear)


def test_a_cohort_may_have_to_be_larger_than_a_neighbourhood(tmp_path):
    """Of fifteen clients each has twelve neighbours, and a sum must be of fourteen."""
    change = {"data.nodes": 300, "data.clients": 15, "secure_sum.least_cohort": 14, "rounds": 1}
    one = run({**CHANGES, **change, "secure_sum.name": "clear"}, tmp_path / "clear")
    assert same(run({**MASKED, **change}, tmp_path / "masked"), one)


@pytest.mark.parametrize(
    "change", [{"secure_sum.most_weight": 5}, {"sharing.name": "fedper"}, {"secure_sum.neighbours": 2}]
)
def test_weights_and_other_sharing_methods_go_with_masks(change, tmp_path):
    one = run({**CHANGES, **change, "secure_sum.name": "clear"}, tmp_path / "clear")
    assert same(run({**MASKED, **change}, tmp_path / "masked"), one)


@pytest.mark.parametrize("write", [5, 14, 26, *(pytest.param(write, marks=pytest.mark.slow) for write in (9, 20, 33))])
def test_a_masked_run_that_is_killed_and_taken_up_is_the_clear_one(write, clear, tmp_path, dying):  # noqa: F811
    dying(write)
    with pytest.raises(Killed):
        run(SIGNED, tmp_path / "run")
    dying(0)
    folder = tmp_path / "run"
    found = runner.resume(folder) if (folder / "experiment.toml").exists() else run(SIGNED, tmp_path / "again")
    assert same(found, clear)


@pytest.fixture(scope="module")
def at_sites(tmp_path_factory):
    """(Summary, sites, all that went between server and nodes) of a masked run at sites."""
    root = tmp_path_factory.mktemp("sites")
    with pytest.MonkeyPatch.context() as patching:
        sent = traffic(patching)
        summary, sites = federated_files("plain_gcn", SIGNED, root)
    return summary, sites, sent, root


def test_a_masked_run_at_sites_is_the_clear_one(at_sites, clear):
    summary, sites, *_ = at_sites
    assert same(summary, clear)
    lines = [json.loads(line) for line in (sites.root / sites.names[0] / FILE).read_text().splitlines()]
    told = {line["kind"]: line.get("tells") for line in lines}
    masking = [row.name for row in masking_kinds.KINDS]
    assert all(told[kind] == [] for kind in ("train", "evaluate", *masking))
    assert {line["purpose"] for line in lines if line["kind"] in masking} == {"masking"}
    assert {line["decision"] for line in lines if line["kind"] != "begun"} == {"sent"}


def test_a_masked_run_at_sites_is_taken_up_from_before(at_sites, clear):
    """Rounds are made again: each request and answer is what it was, masks too, or its node would refuse it."""
    _, sites, _, root = at_sites
    assert same(runner.resume(root / "run", before=True, sites=sites), clear)


@pytest.mark.parametrize("name", ["clear", "secagg"])
def test_no_bare_codes_and_no_secret_leave_a_site(name, tmp_path, monkeypatch):
    """All codes are a pattern, a byte each in a sum: where they are masked, it is in no message, file or log."""
    pattern, roots, begun = bytes([5, 2, 7, 1, 6, 3, 4, 0]), set(), Masking.__init__

    def noted(self, plan, root, *signatures):
        begun(self, plan, root, *signatures)
        roots.add(self._root)

    monkeypatch.setattr(Masking, "__init__", noted)
    codes = np.frombuffer(pattern, np.uint8).astype(np.uint32)
    monkeypatch.setattr(AgreedScales, "coded", lambda self, *given: np.resize(codes, self.codes))
    sent = traffic(monkeypatch)
    federated_files("plain_gcn", {**MASKED, "secure_sum.name": name, "rounds": 1, "codec.bits": 6}, tmp_path)
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(pattern * 3 in content for content in sent) == (name == "clear")
    assert not any(pattern * 3 in content for content in files)
    assert len(roots) == (4 if name == "secagg" else 0)
    assert not any(root in content for root in roots for content in [*sent, *files])
