"""Sites that come, go and have new keys while a server runs: what goes on, and what is said at both ends."""

import json
import re
import shutil
import signal

import pytest

from fedgraft.runtimes.federation.folders import file_name
from fedgraft.runtimes.federation.nodes_runtime import KEYLESS
from helpers.federations import SHOPS, WAIT_SECONDS, Federation, call_here, run_here, same

pytestmark = [pytest.mark.federation, pytest.mark.slow]

THREE = (*SHOPS, "data.clients=3", "selector.name=all")


class Growing(Federation):
    """A federation of the first two of three sites."""

    def _shard(self, root, recipe, changes):
        path = super()._shard(root, recipe, changes)
        file = root / "clients.toml"
        names = re.findall(r'"([^"]+)"', file.read_text())
        self.third, self.real = file_name(names[2]), names[2]
        file.write_text(f"names = {json.dumps(names[:2])}")
        return path

    def say(self, command, *arguments):
        call_here("federation", command, self.root, *arguments)

    def grow(self):
        if self.third not in self.processes:
            self.say("add", self.real)
            self.start(self.third)


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    with Growing(tmp_path_factory.mktemp("sites") / "federation", *THREE) as made:
        yield made


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return run_here(tmp_path_factory.mktemp("local") / "run", *THREE)


def refused(sites, name):
    """Wait until a node has ended since its key is unknown, and both ends have said so."""
    assert sites.processes.pop(name).wait(WAIT_SECONDS) == 1
    said = sites.log(name).splitlines()[-1]
    assert re.search(r"error: unknown key: localhost:\d+ does not know .*node\.key\. It was removed, has been", said)
    sites.wait_for("server", "'s, and was removed; refused.")


def rows_of(out):
    return [json.loads(line) for line in (out / "rounds.jsonl").read_text().splitlines()]


def equal(one, two):
    assert one == two


def test_a_site_that_is_added_is_in_the_next_run_and_runs_that_began_before_go_on_without_it(sites, expected, tmp_path):
    two = sites.run(tmp_path / "two")
    process = sites.begin(tmp_path / "old", "checkpoint.every_seconds=0")
    sites.wait_for_round(tmp_path / "old", 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(WAIT_SECONDS) == 130

    sites.grow()
    equal(*same(sites.run(tmp_path / "three"), expected))
    equal(*same(json.loads(call_here("resume", tmp_path / "old", "--json")), two))


def test_a_site_with_a_new_key_goes_on_in_the_run_that_is_under_way(sites, expected, tmp_path):
    sites.grow()
    process = sites.begin(tmp_path / "run", "checkpoint.every_seconds=0")
    sites.wait_for_round(tmp_path / "run", 1)
    name = sites.names[0]
    old = sites.root / "old"
    shutil.copytree(sites.root / "nodes" / name, old, ignore=shutil.ignore_patterns("memories", "runs"))
    sites.say("rotate", name)  # its folder is that of its node, which so finds the new key
    said = call_here("node", old, "--data", sites.root / "clients" / f"{name}.data", code=1)
    assert said.splitlines()[-1].startswith(
        f"error: unknown key: localhost:{sites.port} does not know {old / 'node.key'}."
    )
    assert process.wait(WAIT_SECONDS) == 0
    equal(*same(json.loads((tmp_path / "run" / "summary.json").read_text()), expected))


def test_a_site_that_is_removed_fails_from_then_on_and_takes_no_part_in_later_runs(sites, expected, tmp_path):
    sites.grow()
    name, out = sites.names[1], tmp_path / "run"
    process = sites.begin(out, "checkpoint.every_seconds=0")
    sites.wait_for_round(out, 1)
    sites.say("remove", name)
    refused(sites, name)
    assert process.wait(WAIT_SECONDS) == 0
    assert rows_of(out)[-1]["failed"] == {"1": KEYLESS}

    later = sites.run(tmp_path / "later")
    assert later["rounds"] == expected["rounds"]
    assert all(row["selected"] == [0, 2] for row in rows_of(tmp_path / "later"))
    listed = json.loads(call_here("federation", "status", sites.root, "--json"))["nodes"]
    assert [(row["name"], row["state"]) for row in listed if row["state"] != "online"] == [
        (listed[1]["name"], "no key")
    ]

    sites.say("add", name)
    sites.start(name)
    equal(*same(sites.run(tmp_path / "again"), expected))


def test_a_run_goes_on_after_a_removal_while_it_was_interrupted(sites, tmp_path):
    sites.grow()
    process = sites.begin(tmp_path / "run", "checkpoint.every_seconds=0")
    sites.wait_for_round(tmp_path / "run", 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(WAIT_SECONDS) == 130
    sites.kill("server", signal.SIGTERM)
    sites.say("remove", sites.names[1])
    sites.start_server()
    refused(sites, sites.names[1])
    call_here("resume", tmp_path / "run", "--json")
    rows = rows_of(tmp_path / "run")
    assert rows[0]["failed"] == {}
    assert [row["failed"] for row in rows[-1:]] == [{"1": KEYLESS}]
