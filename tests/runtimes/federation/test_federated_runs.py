"""Federations of real processes, over TLS with keys: the bits and bytes of one machine, through kills of any part."""

import json
import re
import shutil
import signal
import time

import pandas as pd
import pytest

import fedgraft
from fedgraft.contracts.data import names_of
from fedgraft.experiment.predicting.predict import predict
from fedgraft.runtimes.federation.folders import file_name
from helpers.federations import SHOPS, WAIT_SECONDS, Federation, call_here, federation, run_here, same

pytestmark = pytest.mark.federation

RECIPES = {
    "node": (
        "fedais",
        "data.name=blocks",
        "data.nodes=300",
        "data.clients=2",
        "selector.clients=1",
        "rounds=2",
        "baselines=[]",
    ),
    "graph": ("cefgl", "data.name=molecules", "data.clients=2", "data.graphs=60", "rounds=2", "baselines=[]"),
    "ranking": (
        "reputation_ucb",
        "data.name=catalogue",
        "data.clients=2",
        "selector.clients=1",
        "rounds=2",
        "clock.devices=lognormal",
        "baselines=[]",
    ),
    "masked": (
        "plain_gcn",
        "data.name=blocks",
        "data.nodes=120",
        "data.clients=3",
        "codec.name=quantized",
        "codec.scale=agreed",
        "codec.rounding=stochastic",
        "evaluation.at=clients",
        "secure_sum.name=secagg",
        "secure_sum.signed=true",
        "rounds=2",
        "baselines=[]",
    ),
}

OWN_MODELS, HIDDEN = ("graph",), ("masked",)
"""Tasks whose clients have models of their own, and whose updates are masked."""


@pytest.fixture(scope="module")
def shops(tmp_path_factory):
    with federation(tmp_path_factory.mktemp("shops") / "federation", *SHOPS, allow=["codec"]) as made:
        yield made


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return run_here(tmp_path_factory.mktemp("local") / "run", *SHOPS)


@pytest.mark.slow
@pytest.mark.parametrize("task", list(RECIPES))
def test_every_task_ends_as_on_one_machine(tmp_path, task):
    with federation(tmp_path / "federation", *RECIPES[task]) as made:
        found = made.run(tmp_path / "run")
    one, two = same(found, run_here(tmp_path / "local", *RECIPES[task]))
    if task in OWN_MODELS:  # what clients remember has a part in the digest of one machine alone
        assert one.pop("digest") != two.pop("digest")
    if task in HIDDEN:  # operations tell of data
        assert (one.pop("flops"), two.pop("flops") > 0) == (None, True)
    assert one == two


def test_a_run_ends_as_on_one_machine_and_each_site_predicts_with_its_model(shops, expected, tmp_path):
    found = shops.run(tmp_path / "run")
    one, two = same(found, expected)
    assert one == two
    (heads,) = (file for file in (shops.root / "server" / "audits").iterdir() if file.name != "heads.json")
    for name, told in json.loads(heads.read_text()).items():
        node = shops.root / "nodes" / file_name(name)
        said = call_here("audit", node, "--verify", "--head", told["head"])
        assert re.search(r"handing over +1 ", said), said
        with open(node / "audit.jsonl") as file:
            signed = [json.loads(line)["kind"] for line in file][told["lines"] - 1]
        assert signed == "signature"
    run_here(tmp_path / "local", *SHOPS)
    experiment = fedgraft.open(tmp_path / "local").experiment
    shards = experiment.data.load(experiment.seed)
    for name, shard in zip(names_of(shards), shards, strict=True):
        (left,) = (shops.root / "nodes" / file_name(name) / "runs").iterdir()
        pairs = pd.DataFrame({"user": shard.user_ids[:3], "item": shard.item_ids[:3]})
        expected = predict(tmp_path / "local", {"pairs": pairs}, name)
        pairs.to_csv(tmp_path / "pairs.csv", index=False)
        call_here("predict", left, "-o", tmp_path / "answers.csv", "--pairs", tmp_path / "pairs.csv")
        assert pd.read_csv(tmp_path / "answers.csv")["rating"].tolist() == expected["rating"].tolist()


def ended(process):
    assert process.wait(WAIT_SECONDS) == 0


def test_a_node_that_is_killed_and_comes_back_changes_no_bit(shops, expected, tmp_path):
    process = shops.begin(tmp_path / "run", "checkpoint.every_seconds=0")
    shops.wait_for_round(tmp_path / "run", 1)
    shops.kill(shops.names[0])
    shops.start(shops.names[0])
    shops.wait_for_round(tmp_path / "run", 2)
    shops.kill(shops.names[1], signal.SIGTERM)
    time.sleep(2)
    shops.start(shops.names[1])
    ended(process)
    one, two = same(json.loads((tmp_path / "run" / "summary.json").read_text()), expected)
    assert one == two


@pytest.mark.slow
def test_a_run_that_is_killed_is_resumed_to_the_same_bits(shops, expected, tmp_path):
    shops.begin(tmp_path / "run", "checkpoint.every_seconds=0")
    shops.wait_for_round(tmp_path / "run", 2)
    shops.kill("run")
    found = json.loads(call_here("resume", tmp_path / "run", "--json"))
    one, two = same(found, expected)
    assert one == two


@pytest.mark.slow
def test_a_server_that_is_killed_is_started_and_the_run_resumed_to_the_same_bits(shops, expected, tmp_path):
    process = shops.begin(tmp_path / "run", "checkpoint.every_seconds=0")
    shops.wait_for_round(tmp_path / "run", 2)
    shops.kill("server")
    assert process.wait(WAIT_SECONDS) == 1
    said = shops.log("run").strip().splitlines()[-1]
    assert re.search(r"error: No server answers at .*; start it with .* Then go on with 'fedgraft resume ", said), said
    shops.start_server()
    found = json.loads(call_here("resume", tmp_path / "run", "--json"))
    one, two = same(found, expected)
    assert one == two


@pytest.mark.slow
def test_ctrl_c_stores_the_run_and_says_how_to_go_on(shops, expected, tmp_path):
    process = shops.begin(tmp_path / "run", "checkpoint.every_seconds=0")
    shops.wait_for_round(tmp_path / "run", 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(WAIT_SECONDS) == 130
    assert f"Continue with: fedgraft resume {tmp_path / 'run'}" in shops.log("run")
    one, two = same(json.loads(call_here("resume", tmp_path / "run", "--json")), expected)
    assert one == two


@pytest.mark.slow
def test_a_node_that_lost_its_disk_fails_once_by_name_and_goes_on(shops, tmp_path):
    process = shops.begin(tmp_path / "run", "selector.name=all", "codec.name=quantized", "codec.feedback=true")
    shops.wait_for_round(tmp_path / "run", 1)
    for path in (shops.root / "nodes" / shops.names[0] / "memories").rglob("*.bin"):
        path.unlink()
    ended(process)
    rows = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    assert [row["failed"] for row in rows if row["failed"]] == [{"0": "its memory was lost; it goes on as new"}]


def test_what_is_wrong_is_one_line(shops, tmp_path):
    said = shops.run(tmp_path / "a", "data.clients=5", code=2)
    assert "data.clients cannot be given with --on" in said
    said = call_here("run", "fedacs", "--on", tmp_path / "nowhere", code=2)
    assert "has no federation.toml: make it with 'fedgraft federation init" in said
    node = shops.root / "nodes" / shops.names[0]
    shops.wait_for(shops.names[0], "data fit the recipe")
    other = ["--data", shops.root / "clients" / f"{shops.names[1]}.data"]
    said = call_here("node", node, *other, code=2)
    assert "is in use: another node process runs from it." in said
    shutil.copytree(node, tmp_path / "copy", ignore=shutil.ignore_patterns("memories"))
    said = call_here("node", tmp_path / "copy", *other, code=2)
    assert "is of client 1" in said
    said = call_here("node", tmp_path / "copy", *other, "--head", "0" * 64, code=2)
    assert "has no line with the hash 0000" in said
    (tmp_path / "copy" / "audit.head").unlink()
    (tmp_path / "copy" / "audit.jsonl").write_text("{}\n")
    said = call_here("node", tmp_path / "copy", *other, code=2)
    assert "somebody took that away. Put it back, or move audit.jsonl away" in said
    assert said.count("\n") == 1


def test_a_federation_without_a_site_is_one_line(tmp_path):
    call_here("federation", "init", tmp_path / "fed", "--no-keys", "--names", "north", "--recipe", "fedacs")
    said = call_here("run", "fedacs", "--on", tmp_path / "fed", "--out", tmp_path / "run", code=2)
    assert said == f"error: {tmp_path / 'fed'} has no site with a key; 'fedgraft federation add' adds one.\n"


def test_a_federation_without_a_server_is_one_line(tmp_path):
    made = Federation(tmp_path / "federation", *SHOPS)
    assert "No server answers" in made.run(tmp_path / "run", code=1)
    assert not (tmp_path / "run").exists()
