"""Scores of models that are trained without noise would tell of ratings that a claim hides: none leaves a client."""

import pytest

from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.claims import claim_of, sentence
from fedgraft.experiment.described import without_data
from fedgraft.experiment.recipes import server_choices
from fedgraft.experiment.running import runner
from fedgraft.runtimes.federation.audit import FILE, read
from helpers.local_sites import federated_files

SHOPS = {
    **{"data.users": 30, "data.items": 30, "data.count": 200, "data.clients": 4, "training.epochs": 1, "rounds": 2},
    **{"baselines": [], "privacy.delta": 1e-4, "evaluation.every": 1, "runtime.workers": 0},
}


@pytest.fixture(scope="module")
def at_sites(tmp_path_factory):
    """Summary of a run at four sites, the sites, and kinds of all replies in their logs."""
    summary, sites = federated_files("graft_rating_private", SHOPS, tmp_path_factory.mktemp("sites"))
    lines = [line for name in sites.names for line in read(sites.root / name / FILE)]
    return summary, sites, {line.get("reply") for line in lines}


def test_no_score_leaves_a_site(at_sites):
    """The break: exact sums of scores of models without noise left every tenth round, at a claim of 4."""
    summary, _, kinds = at_sites
    assert "publish" in kinds
    assert not {"evaluate", "measure", "relay"} & kinds
    assert summary["bytes"]["evaluation"] == 0
    assert (summary["validation"], summary["test"], summary["test_at_best_validation"]) == (None, None, None)
    assert any("No score has left a site" in line for line in summary["remarks"])
    assert not any("held-out" in line or "experimenter" in line for line in summary["privacy"]["not_covered"])


def test_a_site_refuses_to_be_looked_at(at_sites):
    _, sites, _ = at_sites
    (joined,) = sites.link.by_id[100]._runs.values()
    assert {"evaluate", "measure", "relay"}.isdisjoint(joined.client._protocol.kinds)


def test_the_experimenter_on_one_machine_sees_scores_and_the_claim_says_so(tmp_path):
    summary = runner.execute(jobs.load("graft_rating_private", SHOPS), tmp_path / "run")
    assert 0 < summary["test"] < 2
    assert summary["bytes"]["evaluation"] == 0
    claim = summary["privacy"]
    assert claim["exact_scores"] is False
    assert any("experimenter" in line for line in claim["not_covered"])
    assert "of statistics alone" not in sentence(claim)
    assert any("in the protocol none leaves a client" in line for line in summary["remarks"])


def test_who_has_scores_told_reads_in_the_headline_that_they_are_exact():
    told = without_data("graft_rating_private", {**SHOPS, "evaluation.at": "clients"})
    claim = claim_of(told.among(4), 4, numbers=60)
    assert claim["exact_scores"] is True
    assert "of statistics alone, not of scores, where" in sentence(claim)


def test_a_server_s_recipe_may_have_less_told_and_no_more():
    home, clients = (
        without_data("graft_rating_private", {**SHOPS, "evaluation.at": at}).recipe.sections
        for at in ("home", "clients")
    )
    server_choices.check(home, clients)
    with pytest.raises(InputError, match=r"evaluation\.at is 'clients' in the server's recipe and 'home' in this"):
        server_choices.check(clients, home)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"patience": 2}, "patience would end a run by them: patience = 0"),
        ({"selector.name": "fedacs"}, r"learns from them: selector\.name = 'random'"),
    ],
)
def test_what_needs_scores_is_refused(change, said):
    with pytest.raises(InputError, match=said):
        without_data("graft_rating_private", {**SHOPS, **change})
