"""Noise at sites: drawn from a site's own secret, counted over all runs of its data, and refused once it is spent."""

import contextlib

import pytest

from fedgraft.engine.privacy.policy import Policy
from fedgraft.engine.privacy.spending import Spending
from fedgraft.engine.protocol.sums import told_by_kind
from fedgraft.errors import AllClientsFailedError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.described import without_data
from fedgraft.experiment.policies import own_policy, rules_of
from fedgraft.experiment.running import runner
from fedgraft.experiment.storage.client_files import shard
from fedgraft.runtimes.federation.audit import FILE, read
from helpers.local_sites import LocalSites

CHANGES = {
    "data.name": "blocks",
    "data.nodes": 200,
    "data.clients": 4,
    "data.features": 6,
    "rounds": 2,
    "baselines": [],
    "privacy.delta": 1e-4,
}


@pytest.fixture
def sites(tmp_path):
    """Four sites with files of their own, and the recipe of all."""
    names = []
    paths = shard(jobs.load("graft_node_private", CHANGES), tmp_path / "shards", lambda name, *_: names.append(name))
    changes = {"runtime.name": "sites", "baselines": []}
    experiment = jobs.load(str(tmp_path / "shards" / "recipe.toml"), changes)
    allowed, data = own_policy(experiment, Policy(epsilon=7.0, delta=1e-4)), [[str(path)] for path in paths]
    return experiment, LocalSites(experiment, data, names, tmp_path / "nodes", allowed)


def logged(sites, client=0):
    """Lines of a site's log about updates that left it."""
    lines = read(sites.root / sites.names[client] / FILE)
    return [line for line in lines if line["kind"] == "train" and line["decision"] == "sent"]


def test_a_site_counts_what_it_has_told_over_all_runs_and_stops(sites, tmp_path, caplog):
    experiment, there = sites
    first = runner.execute(experiment, tmp_path / "one", sites=there)
    spent = [line["epsilon"] for line in logged(there)]
    assert len(spent) == 2
    assert 0 < spent[0] < spent[1] <= 4.0
    assert "who knows the seed" not in str(first["privacy"]["not_covered"])
    second = runner.execute(experiment, tmp_path / "two", sites=there)
    assert second["digest"] != first["digest"], "each run's noise is its own"
    assert logged(there)[-1]["epsilon"] == pytest.approx(5.9, abs=0.3)
    with pytest.raises(AllClientsFailedError):
        runner.execute(experiment, tmp_path / "three", sites=there)
    assert "privacy is spent: with this reply epsilon would be" in caplog.text
    assert logged(there)[-1]["epsilon"] <= 7.0


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("graft_node_private", {**CHANGES, "answers.smoothing": 1, "privacy.answers": 1.0}),
        (
            "graft_rating_private",
            {
                **{"data.users": 30, "data.items": 30, "data.count": 200, "data.clients": 4, "training.epochs": 1},
                **{"rounds": 1, "baselines": [], "privacy.delta": 1e-4},
            },
        ),
    ],
)
def test_a_site_without_a_policy_tells_what_its_own_recipe_claims_and_no_more(tmp_path, caplog, recipe, changes):
    names = []
    paths = shard(jobs.load(recipe, changes), tmp_path / "shards", lambda name, *_: names.append(name))
    experiment = jobs.load(str(tmp_path / "shards" / "recipe.toml"), {"runtime.name": "sites", "baselines": []})
    there = LocalSites(experiment, [[str(path)] for path in paths], names, tmp_path / "nodes")
    first = runner.execute(experiment, tmp_path / "one", sites=there)
    assert not any(first["failures"].values())
    (allowed,) = {node._runs[next(iter(node._runs))].client._plan.policy.epsilon for node in there.link.by_id.values()}
    assert allowed == experiment.plan.privacy.epsilon
    spent = [line for line in read(there.root / names[0] / FILE) if "epsilon" in line][-1]["epsilon"]
    assert 0.9 * allowed < spent <= allowed
    with contextlib.suppress(AllClientsFailedError):
        runner.execute(experiment, tmp_path / "two", sites=there)
    assert "privacy is spent: with this reply epsilon would be" in caplog.text
    assert (
        "More may be told where the site says so: a larger policy.epsilon in the file of 'fedgraft node" in caplog.text
    )
    lines = [line for line in read(there.root / names[0] / FILE) if "epsilon" in line]
    assert lines[-1]["epsilon"] == spent, "nothing more has left"


def test_an_epsilon_that_a_policy_does_not_say_is_that_of_the_recipe():
    private, plain = without_data("graft_node_private"), without_data("graft_node")
    claimed = private.plan.privacy
    found = own_policy(private, Policy(min_examples=7))
    assert (found.epsilon, found.delta, found.min_examples) == (claimed.epsilon, claimed.delta, 7)
    assert own_policy(private, Policy(epsilon=9.0, delta=1e-3)).epsilon == 9.0
    assert own_policy(plain).epsilon == 0.0


def test_without_a_limit_it_is_counted_alone():
    plan = jobs.load("graft_node_private", {**CHANGES, "secure_sum.name": "clear", "privacy.shares": 4}).plan
    part = told_by_kind(plan)["train"]
    free = Spending(Policy(delta=1e-4), [])
    assert free.epsilons == {}
    told = [free.note(part) for _ in range(3)]
    assert told == sorted(told)
    assert free.refusal(part) == ""
    one = Spending(Policy(epsilon=told[1], delta=1e-4), [part])
    assert one.refusal(part) == ""
    one.note(part)
    assert "privacy is spent" in one.refusal(part)


def test_random_answers_add_to_what_noise_has_told():
    options = {"answers.smoothing": 1, "privacy.answers": 1.5, "secure_sum.name": "clear", "privacy.shares": 4}
    told = told_by_kind(jobs.load("graft_node_private", {**CHANGES, **options}).plan)
    assert told.keys() == {"train", "smooth"}
    spent = Spending(Policy(delta=1e-4), [told["smooth"]])
    assert spent.epsilons == {"node": pytest.approx(1.5, abs=1e-3)}
    assert spent.note(told["smooth"]) == pytest.approx(3.0, abs=1e-3)
    both = Spending(Policy(epsilon=4.0, delta=1e-4), [told["train"], told["train"]])
    assert both.epsilons["node"] < 2.6 < both.note(told["smooth"]) <= 4.0
    assert "privacy is spent: with this reply epsilon would be" in both.refusal(told["smooth"])


@pytest.mark.parametrize(
    ("recipe", "change", "beyond"),
    [
        ("graft_node", {}, "updates without noise"),
        ("graft_node_private", {}, ""),
        ("graft_node_private", {"privacy.epsilon": 8.0}, "8.8"),
    ],
)
def test_a_policy_may_ask_for_noise(recipe, change, beyond):
    rules = {rule.name: rule for rule in rules_of(without_data(recipe, change), Policy(epsilon=5.0))}
    assert rules["epsilon"].allowed == "5 at delta 1e-06"
    assert rules["epsilon"].beyond.startswith(beyond)
    assert bool(rules["epsilon"].beyond) == bool(beyond)
