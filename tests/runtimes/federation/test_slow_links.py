"""A federation over slow links, each site in a network namespace: what its links carry, and what they may lose."""

import json
import time
from contextlib import ExitStack

import pytest

from helpers.benchmarks import importable
from helpers.federations import SHOPS, WAIT_SECONDS, federation, run_here, same

with importable():
    from slow_network import SERVER, Refused, counted, link, network

pytestmark = pytest.mark.federation

MBITS = (20.0, 5.0)
ALLOWED = ["model.hidden", "evaluation.at"]
TENTH_OF_A_MEGABYTE = (
    "model.hidden=120",
    "selector.name=all",
    "evaluation.at=clients",
    "evaluation.every=1",
    "rounds=8",
)
MOST_OVER_LEDGER = 0.15


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The federation, and the namespaces of its server and sites."""
    with ExitStack() as stack:
        try:
            spaces = stack.enter_context(network(MBITS))
        except Refused as error:
            pytest.skip(f"no network namespaces here: {error}")
        root = tmp_path_factory.mktemp("shops") / "federation"
        yield stack.enter_context(federation(root, *SHOPS, host=SERVER, spaces=spaces, allow=ALLOWED)), spaces


@pytest.mark.slow
def test_a_round_with_a_model_of_100_kb_carries_little_more_than_the_ledger_says(made, tmp_path):
    """HTTP, TLS and headers; what a run carries before its first round and after its last is not looked at."""
    shops, (server, *_) = made
    process, rows = shops.begin(tmp_path / "run", *TENTH_OF_A_MEGABYTE), tmp_path / "run" / "rounds.jsonl"
    shops.wait_for_round(tmp_path / "run", 2)
    before = counted(server)
    shops.wait_for_round(tmp_path / "run", 8)
    carried = counted(server) - before
    assert process.wait(WAIT_SECONDS) == 0
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    charged = found[7]["bytes_total"] - found[1]["bytes_total"]
    messages = 2 * 3 * 6  # of a model: two down and one up, two sites, six rounds
    assert 95_000 < charged / messages < 115_000
    assert 0 < carried / charged - 1 < MOST_OVER_LEDGER


@pytest.mark.slow
def test_a_link_that_stops_for_half_a_minute_changes_no_bit(made, tmp_path):
    shops, (_, site, *_) = made
    process = shops.begin(tmp_path / "run", "selector.name=all")
    shops.wait_for_round(tmp_path / "run", 1)
    link(site, up=False)
    time.sleep(30)
    link(site, up=True)
    assert process.wait(WAIT_SECONDS) == 0
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    one, two = same(found, run_here(tmp_path / "here", *SHOPS, "selector.name=all"))
    assert one == two
