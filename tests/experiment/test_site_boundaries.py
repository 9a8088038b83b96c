"""Sites whose edges go to nodes of others: the digest, bytes and scores of one machine with the whole table."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedgraft import wire
from fedgraft.domains.nodes.reading.cross_client_edges import DOMAIN
from fedgraft.domains.publications import Publications
from fedgraft.engine.protocol.transport import keyed
from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.storage.matching import CLAIMED, matched_at_sites, neighbours_of, read_told, write_told
from fedgraft.experiment.storage.sites import Site
from fedgraft.wire.masking import hashed
from fedgraft.wire.tokens import tokens
from helpers import local_sites, site_tables
from helpers.local_sites import Restarted, federated, traffic
from helpers.site_boundaries import (
    AUTO,
    CHANGES,
    COLUMNS,
    OPEN,
    PSI,
    SAME,
    at_server,
    at_sites,
    here,
    own,
    resumed_answers,
    tables,
)
from helpers.site_tables import CLIENTS

SECRETS = {"clients": CLIENTS, "secret": bytes(32), "own_secret": bytes(32)}


@pytest.mark.parametrize(
    ("recipe", "alike", "options"),
    [
        ("fedais", False, AUTO),
        ("fedais", True, COLUMNS),
        pytest.param("fedais", True, {**COLUMNS, **PSI}, marks=pytest.mark.slow),
        pytest.param("fedgcn", False, COLUMNS, marks=pytest.mark.slow),
        ("graft_node", False, {**AUTO, **PSI}),
    ],
)
def test_sites_end_as_one_machine_with_the_whole_table(
    tmp_path: Path, recipe: str, alike: bool, options: dict[str, str]
) -> None:
    every = tables(alike)
    one = here(every, tmp_path, recipe, options)
    two, _ = at_sites(every, tmp_path / "sites", recipe, options)
    for name in SAME:
        assert two[name] == one[name], name
    assert one["bytes"]["matching"] > 24 * len(every["edges"]) / 2
    inside, _ = at_sites(every, tmp_path / "inside", recipe, {})
    assert inside["bytes"]["matching"] == 0
    assert inside["digest"] != two["digest"]


ALL_COLUMNS = {"data.edge_features": "all", "data.weight": "times", "data.time": "when", "data.directed": True}
CARRIED: list[Any] = [
    (True, {**COLUMNS, **ALL_COLUMNS}),
    pytest.param(
        False,
        {**COLUMNS, "data.edge_features": ["amount", "channel"], "data.time": "when", "data.duplicate_edges": "last"},
        marks=pytest.mark.slow,
    ),
    (False, {**AUTO, "data.edge_features": "amount", "data.directed": True, "data.duplicate_edges": "sum"}),
    pytest.param(False, {**AUTO, "data.directed": True}, marks=pytest.mark.slow),
    pytest.param(True, {**COLUMNS, **ALL_COLUMNS, "data.match": "psi", "model.name": "gine"}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("alike", "options"), CARRIED)
def test_edges_that_carry_something_are_at_sites_as_on_one_machine(
    tmp_path: Path, alike: bool, options: dict[str, Any]
) -> None:
    every = tables(alike)
    every["edges"], options = site_tables.carrying(every["edges"]), {"model.name": "multigraph", **options}
    one = here(every, tmp_path, "fedais", options)
    two, _ = at_sites(every, tmp_path / "sites", "fedais", options)
    for name in SAME:
        assert two[name] == one[name], name
    assert one["bytes"]["matching"] > 24 * len(every["edges"]) / 2 * 0.5


def test_a_site_without_an_edge_knows_what_edges_carry(tmp_path: Path) -> None:
    every = tables()
    edges = site_tables.carrying(every["edges"])
    every["edges"] = edges[(edges["from"] == "north") & (edges["to"] == "north")]
    options = {**ALL_COLUMNS, "data.edge_features": ["amount", "channel"], "model.name": "multigraph"}
    one = here(every, tmp_path, "fedais", options)
    two, _ = at_sites(every, tmp_path / "sites", "fedais", options)
    assert (two["digest"], two["bytes"]) == (one["digest"], one["bytes"])


def test_one_machine_without_the_options_has_the_same_digest(tmp_path: Path) -> None:
    every = tables()
    (tmp_path / "as before").mkdir()
    before, one = here(every, tmp_path / "as before", "fedais", {}), here(every, tmp_path, "fedais", {**AUTO, **OPEN})
    assert before["digest"] == one["digest"]
    assert {**one["bytes"], "matching": 0, "total": 0, "up": 0, "down": 0} == {
        **before["bytes"],
        "total": 0,
        "up": 0,
        "down": 0,
    }


def test_private_set_intersection_ends_as_keyed_hashes_do_but_for_the_bytes_of_matching(tmp_path: Path) -> None:
    every = tables()
    found = []
    for name, options in (("hashes", AUTO), ("psi", {**AUTO, **PSI})):
        (tmp_path / name).mkdir()
        found.append(here(every, tmp_path / name, "fedais", options))
    one, two = found
    assert [one[name] for name in SAME if name != "bytes"] == [two[name] for name in SAME if name != "bytes"]
    differ = {name for name, size in one["bytes"].items() if size != two["bytes"][name]}
    assert differ == {"matching", "total", "up", "down"}
    assert two["bytes"]["matching"] > 2 * one["bytes"]["matching"]


def test_a_server_that_resumes_and_a_site_that_predicts_know_where_the_other_ends_are(tmp_path: Path) -> None:
    answers, wanted = resumed_answers(tmp_path, OPEN)
    assert answers["class"].tolist() == wanted["class"].tolist()
    assert answers["probability"].tolist() == wanted["probability"].tolist()


def canaries() -> dict[str, pd.DataFrame]:
    every = tables()
    return {
        "nodes": every["nodes"].replace({"node": {"n": "canary"}}, regex=True),
        "edges": every["edges"].replace({"source": {"n": "canary"}, "target": {"n": "canary"}}, regex=True),
    }


@pytest.mark.parametrize("options", [AUTO, pytest.param({**AUTO, **PSI}, marks=pytest.mark.slow)])
def test_no_id_leaves_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]) -> None:
    every, sent = canaries(), traffic(monkeypatch)
    at_sites(every, tmp_path, "fedais", options)
    assert any(CLAIMED.encode() in each for each in sent)
    kept = [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not [each for each in [*sent, *kept] if b"canary" in each]
    ends = every["edges"][["source", "target"]].to_numpy().tolist()
    made = [bytes(token) for token in tokens(bytes(range(32)), DOMAIN, map(sorted, ends))]
    known = [token for token in made if any(token in each for each in sent)]
    assert bool(known) == (options == AUTO)  # whoever has the secret knows tokens again, but nothing that is masked
    assert not [token for token in made if any(hashed(token) in each for each in sent)]


def test_a_site_that_ends_between_two_messages_has_the_same_masks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every, options = tables(), {**AUTO, **PSI}
    whole = here(every, tmp_path, "fedais", options)
    monkeypatch.setattr(local_sites, "Node", Restarted)
    found, sites = at_sites(every, tmp_path / "sites", "fedais", options)
    assert (found["digest"], found["bytes"]) == (whole["digest"], whole["bytes"])
    first, recipe = sites.sites[0], sites.sites[0].own.to_toml().encode()
    one, two, other = (first.read(recipe, run=run)[1][CLAIMED] for run in ("a", "a", "b"))
    assert one == two != other


def test_a_site_that_claims_ids_that_it_has_not_is_joined_with_none_of_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    every, wrong = tables(), tables()
    nodes, edges = every["nodes"], wrong["edges"]
    north, south = (nodes[nodes["client"] == name]["node"].tolist() for name in CLIENTS)
    count = len(edges) // 10
    false = pd.DataFrame({"source": south[:1] * count, "target": north[:count], "from": "south", "to": "north"})
    listed = {frozenset(pair) for pair in edges[["source", "target"]].to_numpy().tolist()}
    false = false[[frozenset(pair) not in listed for pair in false[["source", "target"]].to_numpy().tolist()]]
    given = [own(every, "north", tmp_path / "north")]
    given += [own({**wrong, "edges": pd.concat([edges, false])}, "south", tmp_path / "south")]
    (tmp_path / "whole").mkdir()
    one = here(every, tmp_path / "whole", "fedais", {**COLUMNS, **PSI})
    nowhere = {"data.nodes": "nowhere.csv", "data.edges": "nowhere.csv"}
    two, _ = federated("fedais", {**CHANGES, **nowhere, **COLUMNS, **PSI}, given, list(CLIENTS), tmp_path)
    assert two["digest"] == one["digest"]
    assert f"{len(false)} edges to nodes of 'north', which does not list them, left out" in caplog.text


@pytest.mark.parametrize(
    ("recipe", "options", "names"),
    [
        ("fedais", {**AUTO, **PSI}, ("owner", "place")),
        ("fedgcn", AUTO, ("owner", "place")),
    ],
)
def test_a_site_that_asks_for_a_node_to_which_nothing_joins_it_takes_no_part(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    recipe: str,
    options: dict[str, Any],
    names: tuple[str, str],
) -> None:
    published = Publications.statistics

    def asking(task: Publications, shard: Any) -> Any:
        said = published(task, shard)
        if shard.name == "south":  # another of north's nodes in place of the last
            place = said[names[1]].copy()
            place[-1] = next(k for k in range(place[-1] + 1, 10**6) if k not in place)
            said = {**said, names[1]: place}
        return said

    monkeypatch.setattr(Publications, "statistics", asking)
    found, _ = at_sites(tables(), tmp_path, recipe, {**options, "selector.clients": 1})
    assert found["failures"]["setup"] == 1
    assert re.search(
        r"Client 1 takes no part: it names node \d+ of client 0, which none of its edges was joined to", caplog.text
    )


def test_a_site_without_the_secret_and_answers_that_are_none_are_one_line(tmp_path: Path) -> None:
    every = tables()
    data = own(every, "north", tmp_path)
    experiment = jobs.load("fedais", at_server(AUTO))
    with pytest.raises(InputError, match=r"need the secret that all have in common.*federation keygen"):
        Site(experiment, data, 0, "north", clients=CLIENTS).check()
    Site(experiment, data, 0, "north", clients=CLIENTS, secret=bytes(32)).check()
    for claimed in (b"no", bytes(40), wire.pack({"token": 1}), wire.pack({})):
        with pytest.raises(InputError, match="Client 0 has told what are no edges to others"):
            matched_at_sites(experiment, {0: claimed}, 2)
    with pytest.raises(InputError, match="no answer to edges to others"):
        neighbours_of(CLIENTS, b"no")
    site, recipe = Site(experiment, data, 0, "north", clients=CLIENTS, secret=bytes(32)), experiment.to_toml().encode()
    with pytest.raises(InputError, match="no answer to edges to others"):
        site.read(recipe, b"no")
    order = wire.pack({"point": np.zeros((1, 32), np.uint8), "count": np.array([0, 1, 0], np.uint32)})
    with pytest.raises(InputError, match=r"points to mask, which data.match = 'psi' alone has a site do"):
        site.read(recipe, order)


def test_points_that_are_none_are_one_line(tmp_path: Path) -> None:
    every = tables()
    data = own(every, "north", tmp_path)
    experiment = jobs.load("fedais", at_server({**AUTO, **PSI}))
    site, recipe = Site(experiment, data, 0, "north", **SECRETS), experiment.to_toml().encode()
    order = {"point": np.zeros((1, 32), np.uint8), "count": np.array([0, 1, 0], np.uint32)}
    with pytest.raises(InputError, match=r"what are no points of others' edges: point 0 of 1 is none of Curve25519"):
        site.read(recipe, wire.pack({**order}))
    claimed = site.read(recipe, run="a")[1][CLAIMED]
    for wrong in ({}, {"token": np.zeros((3, 16), np.uint8)}):
        with pytest.raises(InputError, match="Client 0 has told what are no edges to others"):
            matched_at_sites(experiment, {0: claimed}, 2, lambda orders, wrong=wrong: {0: wire.pack({**wrong})})
    tree = wire.unpack(claimed)
    tree["point"] = np.zeros_like(tree["point"])
    with pytest.raises(InputError, match="Client 0 has told what are no edges to others: point 0 of"):
        matched_at_sites(experiment, {0: wire.pack(tree)}, 2)
    with pytest.raises(InputError, match="length of a secret must be 32 bytes"):
        Site(experiment, data, 0, "north", clients=CLIENTS, secret=bytes(32)).read(recipe)


def test_who_was_not_there_is_told_that_nothing_was_joined(tmp_path: Path) -> None:
    every = tables()
    changes = {**at_server(AUTO), "task.classes": 3, "task.class_names": ["cat", "dog", "owl"], "task.features": 4}
    experiment = jobs.load("fedais", {**changes, "data.features": ["f0", "f1", "f2", "f3"]})
    experiment = experiment.with_data(experiment.data.agreeing({}))
    one, two = (
        Site(experiment, own(every, name, tmp_path / name), k, name, **SECRETS) for k, name in enumerate(CLIENTS)
    )
    recipe = experiment.to_toml().encode()
    claimed = one.read(recipe)[1]["claimed"]
    assert isinstance(claimed, bytes)
    matched, told = matched_at_sites(experiment, {0: claimed}, 2)
    assert sorted(matched.joined.matching) == [0]
    for site in (one, two):
        shard, about = site.read(recipe, told[site.number])
        assert shard.halo == 0
        assert about["data"] == keyed(site.own_secret, "data", site.digest.encode()).hex() != site.digest
    write_told(tmp_path / "kept" / "run.bin", told)
    assert read_told(tmp_path / "kept" / "run.bin") == told
    assert read_told(tmp_path / "kept" / "none.bin") == {}
    (tmp_path / "kept" / "run.bin").write_bytes(b"damaged")
    with pytest.raises(InputError, match="is damaged"):
        read_told(tmp_path / "kept" / "run.bin")
