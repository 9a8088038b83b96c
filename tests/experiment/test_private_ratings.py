"""Runs whose statistics of users are added up, with noise: the same bits masked, and what is said and refused."""

import numpy as np
import pytest

from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import InputError
from fedgraft.experiment.described import without_data
from fedgraft.experiment.job import load
from fedgraft.experiment.running import runner
from fedgraft.interface.claimed import claimed

SHOPS = {
    "data.users": 80,
    "data.items": 60,
    "data.count": 900,
    "data.clients": 4,
    "rounds": 2,
    "training.epochs": 2,
    "evaluation.every": 2,
    "baselines": [],
    "secure_sum.name": "clear",
    "privacy.delta": 1e-4,
    "checkpoint.every_seconds": 0,
    "runtime.workers": 0,
}
NO_NOISE = {"privacy.unit": "", "privacy.epsilon": 0.0, "privacy.delta": 0.0}


def run(changes, folder):
    return runner.execute(load("graft_rating_private", {**SHOPS, **changes}), folder)


def same(found, expected):
    return all(found[key] == expected[key] for key in ("digest", "validation", "test", "failures"))


@pytest.fixture(scope="module")
def clear(tmp_path_factory):
    return run({}, tmp_path_factory.mktemp("clear") / "run")


@pytest.mark.parametrize("change", [{"runtime.workers": 2}, {"secure_sum.name": "secagg"}])
def test_masked_or_elsewhere_a_run_has_the_same_bits(change, clear, tmp_path):
    assert same(run(change, tmp_path / "run"), clear)


def test_without_noise_masked_sums_have_the_same_bits(tmp_path):
    one = run(NO_NOISE, tmp_path / "clear")
    assert same(run({**NO_NOISE, "secure_sum.name": "secagg"}, tmp_path / "masked"), one)
    assert "privacy" not in one


def test_a_summary_says_what_is_claimed(clear):
    claim = clear["privacy"]
    assert 3.9 < claim["epsilon"] <= 4.0
    assert (claim["unit"], claim["delta"]) == ("rating", 1e-4)
    assert {row["epsilon"] for row in claim["adversaries"]} == {None}, "parts are not masked"
    assert (claim["parts"][0]["what"], claim["parts"][0]["rounds"]) == ("sums of statistics", 1)
    assert claim["parts"][0]["shares"] == 3  # nine of ten of all four, rounded up, but not all: each knows its own
    assert not any("without noise" in line for line in claim["not_covered"]), "no score leaves a client"


def test_nothing_but_sums_is_sent(clear, tmp_path):
    """Statistics, once; no score, no loss of a client, no update."""
    assert clear["bytes"]["statistics"] > 0
    assert clear["bytes"]["model"] == clear["bytes"]["evaluation"] == 0
    plan = without_data("graft_rating_private", SHOPS).plan
    assert Protocol.of(plan).report("alone") == ()
    assert Protocol.of(plan).report("hello") == ("examples",)


def test_a_user_at_one_shop_may_be_the_unit(tmp_path, clear):
    found = run({"privacy.unit": "user", "privacy.clip": 3.0}, tmp_path / "run")
    assert found["privacy"]["parts"][0]["clip"] == 3.0
    assert found["digest"] != clear["digest"]


def test_a_client_may_be_the_unit_of_what_is_trained(tmp_path):
    change = {"privacy.unit": "client", "privacy.delta": 0.01, "task.share": "nothing", "sharing.name": "fedavg"}
    found = run(change, tmp_path / "run")
    assert found["privacy"]["parts"][0]["what"] == "sums of clipped updates"
    assert found["bytes"]["model"] > 0


def test_hardly_any_noise_is_none(tmp_path):
    quiet, exact = (
        run({**change, "rounds": 1}, tmp_path / name)
        for name, change in {"quiet": {"privacy.epsilon": 1e6}, "exact": NO_NOISE}.items()
    )
    assert quiet["test"] == pytest.approx(exact["test"], abs=2e-3)


def test_a_claim_is_told_before_anything_runs():
    changes = [f"{key}={value}" for key, value in SHOPS.items()]
    told = claimed("graft_rating_private", changes)
    assert told["claim"]["unit"] == "rating"
    assert told["costs"]["units"] > 600


def test_too_few_clients_have_no_sum(tmp_path):
    with pytest.raises(InputError, match=r"secure_sum\.least_cohort|privacy\.shares"):
        run({"data.clients": 2}, tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"secure_sum.name": ""}, r"adds statistics up: secure_sum\.name = 'secagg'"),
        ({"privacy.unit": "ratings"}, r"one of rating, user, client .*Did you mean 'rating'"),
        ({"privacy.unit": "client"}, r"hides less: privacy\.unit = 'rating' or 'user', or no task\.share = 'sums'"),
        ({"task.share": "nothing", "sharing.name": "fedavg"}, r"no statistics are added up: task\.share = 'sums'"),
        ({"sharing.name": "fedavg"}, r"sends of training holds no noise: sharing\.name = 'local'"),
        ({"task.share": "effects"}, r"tell users without noise|task\.share = 'sums'"),
        ({"evaluation.at": "server"}, r"evaluation\.at = 'clients'"),
        ({"selector.name": "oort", "selector.clients": 3}, "needs loss"),
    ],
)
def test_what_would_tell_more_is_refused(change, error):
    with pytest.raises(InputError, match=error):
        without_data("graft_rating_private", {**SHOPS, **change})


def test_a_number_of_users_below_theirs_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"task\.users must be 0 or >= \d+"):
        run({"task.users": 5}, tmp_path / "run")
    assert np.isfinite(run({"task.users": 500, "rounds": 1}, tmp_path / "more")["test"])
