"""Sites that share users and have no list of all: the digest, bytes and scores of one machine with all ratings."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedgraft import wire
from fedgraft.contracts.data import PeerClients, Purpose
from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.matching import CLAIMED, matched_at_sites
from fedgraft.experiment.storage.sites import Site
from fedgraft.methods.data.table import Table
from helpers import local_sites, site_tables
from helpers.local_sites import LocalSites, Restarted, federated, traffic
from helpers.site_tables import CLIENTS
from helpers.tiny import TINY

SAME = ("digest", "bytes", "metric", "test", "validation", "test_per_client")
CHANGES = {
    **{key: value for key, value in TINY.items() if not key.startswith("data.")},
    "rounds": 2,
    "baselines": [],
    "data.name": "table",
    "data.partition": "given",
    "data.low": 1,
    "data.high": 5,
    "data.unknown_trust": "drop",
    "task.share_least": 2,
}
SECRETS = {"clients": CLIENTS, "secret": bytes(32), "own_secret": bytes(32)}


def given(root: Path, name: str = "u") -> list[list[str]]:
    """What each site has: its own ratings and the links that are known there, nothing else."""
    ratings, trust = tables(name)
    found = []
    for client in CLIENTS:
        folder = root / client
        folder.mkdir(parents=True)
        ratings[ratings["client"] == client].drop(columns="client").to_csv(folder / "ratings.csv", index=False)
        trust.to_csv(folder / "trust.csv", index=False)
        found.append([str(folder / "ratings.csv"), f"trust={folder / 'trust.csv'}"])
    return found


def tables(name: str = "u") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ratings and links; ids of users begin with a name."""
    users = {"user": {"u": name}, "trusts": {"u": name}}
    return site_tables.ratings().replace(users, regex=True), site_tables.trust().replace(users, regex=True)


def here(root: Path, recipe: str, changes: dict[str, Any], run: str = "here") -> dict[str, Any]:
    paths = {}
    for key, table in zip(("ratings", "trust"), tables(), strict=True):
        table.to_csv(root / f"{key}.csv", index=False)
        paths[f"data.{key}"] = str(root / f"{key}.csv")
    return execute(jobs.load(recipe, {**CHANGES, "runtime.workers": 0, **paths, **changes}), root / run)


def at_sites(root: Path, recipe: str, changes: dict[str, Any], name: str = "u"):
    nowhere = {"data.ratings": "nowhere.csv", "data.trust": "nowhere.csv"}
    return federated(recipe, {**CHANGES, **nowhere, **changes}, given(root / "tables", name), list(CLIENTS), root)


def loaded(**changes: Any) -> jobs.Job:
    nowhere = {"data.ratings": "nowhere.csv", "data.trust": "nowhere.csv"}
    changes = {**{key: value for key, value in CHANGES.items() if not key.startswith("runtime.")}, **changes}
    return jobs.load("fedacs", {**changes, "runtime.name": "sites", **nowhere})


@pytest.mark.parametrize(
    ("recipe", "match"),
    [
        ("fedacs", "hashes"),
        ("graft_rating", "psi"),
        *(pytest.param(*other, marks=pytest.mark.slow) for other in (("fedacs", "psi"), ("graft_rating", "hashes"))),
    ],
)
def test_sites_that_match_users_end_as_one_machine_and_as_with_a_list_of_all(
    tmp_path: Path, recipe: str, match: str
) -> None:
    one = here(tmp_path, recipe, {"data.match": match})
    two, sites = at_sites(tmp_path / "sites", recipe, {"data.match": match})
    for name in SAME:
        assert two[name] == one[name], name
    listed = here(tmp_path, recipe, {}, "listed")
    assert [one[name] for name in SAME if name != "bytes"] == [listed[name] for name in SAME if name != "bytes"]
    assert (listed["bytes"]["matching"], listed["bytes"]["statistics"]) != (0, 0)
    assert one["bytes"]["matching"] > listed["bytes"]["matching"] == 0
    alone = here(tmp_path, recipe, {"task.share": "nothing"}, "alone")
    assert alone["digest"] != one["digest"] or alone["test"] != one["test"]
    pairs = pd.DataFrame({"user": ["u16", "u3", "u17", "u99"], "item": ["i3", "i12", "i15", "i1"]})
    told = predict(sites.run_folder("north"), {"pairs": pairs})
    wanted = predict(tmp_path / "here", {"pairs": pairs}, client="north")
    assert told["rating"].tolist() == wanted["rating"].tolist()


@pytest.mark.parametrize("match", ["hashes", "psi"])
def test_no_id_of_a_user_leaves_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, match: str) -> None:
    sent = traffic(monkeypatch)
    at_sites(tmp_path, "fedacs", {"data.match": match}, "canary")
    assert any(CLAIMED.encode() in each for each in sent)
    kept = [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not [each for each in [*sent, *kept] if b"canary" in each]


def test_a_site_that_ends_between_messages_and_a_server_that_resumes_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"data.match": "psi", "training.schedule": "constant", "evaluation.every": 1}
    whole = here(tmp_path, "fedacs", {**options, "rounds": 3})
    monkeypatch.setattr(local_sites, "Node", Restarted)
    _, sites = at_sites(tmp_path / "cut", "fedacs", options)
    data = [list(each.data) for each in sites.sites]
    again = LocalSites(sites.sites[0].own, data, list(CLIENTS), tmp_path / "cut" / "nodes")
    found = resume(tmp_path / "cut" / "run", sites=again, rounds=3)
    assert (found["digest"], found["bytes"]) == (whole["digest"], whole["bytes"])


def test_numbers_say_who_is_common_to_clients_and_only_to_these() -> None:
    shards = Table(tables()[0], partition="given", low=1, high=5, match="hashes").load(1)
    number = [dict(zip(shard.user_ids.tolist(), shard.users.tolist(), strict=True)) for shard in shards]
    common = number[0].keys() & number[1].keys()
    assert common
    assert all(number[0][user] == number[1][user] for user in common)
    assert len({*number[0].values(), *number[1].values()}) == len(number[0].keys() | number[1].keys())
    assert sorted(number[0].values()) == list(range(len(number[0])))
    assert all(list(each) == sorted(each) for each in number)  # users stay in the order of their ids


def test_who_was_not_there_and_numbers_that_are_none_are_one_line(tmp_path: Path) -> None:
    experiment, data = loaded(**{"data.match": "hashes"}), given(tmp_path)
    sites = [Site(experiment, data[k], k, name, **SECRETS) for k, name in enumerate(CLIENTS)]
    for site in sites:
        site.check()
    recipe = experiment.to_toml().encode()
    claimed = sites[0].read(recipe)[1][CLAIMED]
    assert isinstance(claimed, bytes)
    _, told = matched_at_sites(experiment, {0: claimed}, 2)
    sites[0].read(recipe, told[0])
    with pytest.raises(InputError, match="none of its users has a number: it can take part in the next run"):
        sites[1].read(recipe, told[1])
    with pytest.raises(InputError, match=r"what are no numbers of users: 1 numbers, of 3, for \d+ claims"):
        sites[0].read(recipe, wire.pack({"number": np.zeros(3, np.uint32)}))
    with pytest.raises(InputError, match="Client 0 has told what are no users"):
        matched_at_sites(experiment, {0: wire.pack({})}, 2)


@pytest.mark.parametrize(
    ("changes", "tables", "error"),
    [
        ({"task.embeddings": True}, [], "data.match must be left out with tables of embeddings"),
        ({}, ["users"], "--data users=FILE must be left out: data.match numbers users by what each site has"),
    ],
)
def test_what_does_not_go_with_it_is_one_line(
    tmp_path: Path, changes: dict[str, Any], tables: list[str], error: str
) -> None:
    data = given(tmp_path)[0]
    experiment = loaded(**{"data.match": "psi", **({"task.share": "nothing"} if changes else {}), **changes})
    with pytest.raises(InputError, match=error):
        Site(experiment, [*data, *(f"{name}={data[0]}" for name in tables)], 0, "north", **SECRETS).check()


def test_data_must_name_clients_and_own_tables_have_no_numbers(caplog: pytest.LogCaptureFixture) -> None:
    ratings = tables()[0]
    with pytest.raises(InputError, match=r"Table.match must be one of '', 'hashes', 'psi'; got 'dsi'"):
        Table(ratings, match="dsi")
    with pytest.raises(InputError, match=r"Table.match needs ratings that name their clients"):
        Table(ratings.drop(columns="client"), match="psi").load(1)
    data = Table(ratings, low=1, high=5, match="psi")
    own = ratings[ratings["client"] == "north"].drop(columns="client")
    shard = data.client_shard(None, {"data": own})
    assert (shard.users == -1).all()
    assert "have no numbers in common with other clients'" in caplog.text
    purpose = Purpose("north", 0, 1, trains=True, neighbours=PeerClients(CLIENTS))
    task = loaded(**{"data.match": "psi"}).plan.task
    assert data.client_shard(task, {"ratings": own}, purpose).users.tolist() == list(range(len(shard.users)))
