"""Whatever a node sends is declared, and no field of it lets who knows all records but one find that one."""

from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts.runtime import fingerprint
from fedgraft.engine.protocol import transport
from fedgraft.engine.protocol.fields import ECHO
from fedgraft.engine.protocol.transport import ENDING, ENVELOPE, FIELDS, JOINING, leaving
from fedgraft.experiment import job as jobs
from fedgraft.experiment.running import runner
from fedgraft.experiment.storage.client_files import read_client, shard, write_client
from fedgraft.experiment.storage.provenance import digest_of
from fedgraft.runtimes.federation.envelope import Order, opened
from helpers.local_sites import LocalSites, traffic

CHANGES = {
    "data.name": "blocks",
    "data.nodes": 90,
    "data.clients": 3,
    "data.features": 4,
    "rounds": 2,
    "baselines": [],
}
RECIPES = {
    "plain": ("graft_node", {**CHANGES, "answers.smoothing": 1}),
    "own models": ("fedais", {**CHANGES, "sharing.name": "fedper"}),
    "private": ("graft_node_private", {**CHANGES, "privacy.delta": 1e-4, "privacy.shares": 3}),
}


def sites_of(tmp_path, name, secrets=lambda client: bytes([client + 1]) * 32, change=None):
    """The recipe, and sites with files; `change` changes the shard of client 0."""
    recipe, changes = RECIPES[name]
    names = []
    paths = shard(jobs.load(recipe, changes), tmp_path / "shards", lambda each, *_: names.append(each))
    if change is not None:
        file = read_client(paths[0])
        write_client(paths[0], file.number, file.name, file.task, change(file.shard))
    experiment = jobs.load(str(tmp_path / "shards" / "recipe.toml"), {"runtime.name": "sites", "baselines": []})
    there = LocalSites(experiment, [[str(path)] for path in paths], names, tmp_path / "nodes")
    for client, site in enumerate(there.sites):
        site.own_secret = secrets(client)
    return experiment, there


@pytest.mark.parametrize("name", RECIPES)
def test_every_field_of_every_answer_of_a_run_is_declared(tmp_path, monkeypatch, name):
    experiment, there = sites_of(tmp_path, name)
    sent = traffic(monkeypatch)
    runner.execute(experiment, tmp_path / "run", sites=there)
    seen = set()
    for order, answer in zip(sent[::2], sent[1::2], strict=True):
        order, answer = opened(Order, order), wire.unpack(answer)
        assert answer.keys() == FIELDS[ENVELOPE].keys()
        if order.kind in ("join", "model"):
            what = JOINING if order.kind == "join" else ENDING
            told = wire.unpack(answer["reply"])
            assert told.keys() <= FIELDS[what].keys()
            seen |= {what}
        else:
            assert wire.kind_of(answer["reply"]) in wire.KINDS
            seen |= {wire.kind_of(answer["reply"])}
        if name == "private":
            assert answer["flops"] == 0
    assert {JOINING, ENDING, "hello", "train"} <= seen


def envelopes(there, experiment, run, monkeypatch):
    """What client 0 says beside messages: as it joins, and around each answer of a run."""
    with monkeypatch.context() as patching:
        patching.setattr(runner.secrets, "token_hex", lambda size: "0123456789abcdef" * 2)
        sent = traffic(patching)
        runner.execute(experiment, run, sites=there)
    found = {}
    for number, (order, answer) in enumerate(zip(sent[::2], sent[1::2], strict=True)):
        order, answer = opened(Order, order), wire.unpack(answer)
        if answer["client"]:
            continue
        told = wire.unpack(answer["reply"]) if order.kind == "join" else {}
        fields = {key: value for key, value in {**answer, **told}.items() if key != "reply"}
        declared = {**FIELDS[ENVELOPE], **FIELDS[JOINING]}
        found |= {(number, key): value for key, value in fields.items() if declared[key].made != ECHO}
    return found


def test_who_knows_all_records_but_one_label_finds_it_in_no_field(tmp_path, monkeypatch):
    """The attack of the audit: play the site with each candidate, and look which one says what the site has said."""

    def labelled(candidate):
        def change(data):
            label = data.label.copy()
            label[np.flatnonzero(data.split == 0)[0]] = candidate
            return replace(data, label=label)

        return change

    experiment, there = sites_of(tmp_path / "site", "own models", change=labelled(1))
    told = envelopes(there, experiment, tmp_path / "site" / "run", monkeypatch)
    same = []
    for candidate in range(3):
        guessed, played = sites_of(
            tmp_path / str(candidate), "own models", lambda client: bytes([99]) * 32, labelled(candidate)
        )
        mine = envelopes(played, guessed, tmp_path / str(candidate) / "run", monkeypatch)
        same.append({place for place, value in mine.items() if told.get(place) == value})
        data = digest_of(played.sites[0].digest), played.sites[0].digest
        assert not {*data, fingerprint(data[1].encode()).hex()} & {str(value) for value in told.values()}
    assert same[0] == same[1] == same[2], "some field is that of one candidate alone"
    assert {key for _, key in told} >= {"data", "memory", "flops"}
    assert any(value for (_, key), value in told.items() if key == "memory")


def test_a_site_whose_data_change_says_so_and_is_known_again_after_a_restart(tmp_path):
    experiment, there = sites_of(tmp_path, "plain")
    site, recipe = there.sites[0], experiment.to_toml().encode()
    first, again = (site.read(recipe, run=run)[1]["data"] for run in ("one", "two"))
    assert first == again
    path = tmp_path / "shards" / "clients" / f"{site.name}.data"
    file = read_client(path if path.exists() else next((tmp_path / "shards").rglob("*.data")))
    changed = replace(file.shard, label=file.shard.label[::-1].copy())
    write_client(next(each for each in (tmp_path / "shards").rglob("*.data") if read_client(each).number == 0), 0,
                 site.name, file.task, changed)  # fmt: skip
    assert site.read(recipe, run="three")[1]["data"] != first


def test_what_is_not_declared_does_not_leave():
    with pytest.raises(ValueError, match=r"^'digest' is no field of what leaves as join: name, python"):
        leaving(JOINING, {"name": "north", "digest": "00"})
    with pytest.raises(ValueError, match="data of join must be of type str"):
        leaving(JOINING, {"data": b"00"})
    answer = {"status": transport.REFUSED, "reply": b"/data/patients.csv is missing"}
    with pytest.raises(ValueError, match="a refusal must be a code"):
        leaving(ENVELOPE, answer)
    assert wire.unpack(leaving(ENVELOPE, {**answer, "reply": b"data do not fit"}))["reply"] == b"data do not fit"


def test_nothing_is_keyed_without_a_key():
    with pytest.raises(ValueError, match="memory would leave without a key"):
        transport.keyed(b"", "memory", b"content")
