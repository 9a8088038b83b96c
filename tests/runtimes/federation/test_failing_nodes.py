"""Nodes that come late, answer what is false, or have a full disk; real processes over TLS."""

import json
import os
import signal
import subprocess
from contextlib import contextmanager

import pytest

from helpers.federations import SHOPS, WAIT_SECONDS, federation, run_here, same

pytestmark = pytest.mark.federation

ALL = ("selector.name=all", "rounds=7", "evaluation.every=7")


@pytest.fixture(scope="module")
def shops(tmp_path_factory):
    with federation(tmp_path_factory.mktemp("shops") / "federation", *SHOPS, allow=["codec"]) as made:
        yield made


def rows_of(run):
    return [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_node_that_comes_late_is_waited_for(shops, tmp_path):
    late = shops.names[-1]
    shops.kill(late, signal.SIGTERM)
    process = shops.begin(tmp_path / "run")
    shops.wait_for("run", "1 of 2 nodes have joined; waiting for client 1.")
    shops.start(late)
    assert process.wait(WAIT_SECONDS) == 0
    one, two = same(json.loads((tmp_path / "run" / "summary.json").read_text()), run_here(tmp_path / "here", *SHOPS))
    assert one == two


def test_what_is_false_fails_its_client_by_name_and_nothing_of_it_enters_the_model(shops, tmp_path):
    """Five lies in five rounds; the model is that of a run in which the node refused to answer in their place."""
    lies = {
        "garbage": "something that is no answer to this order",
        "oversized": "at most",
        "replayed": "something that is no answer to this order",
        "stranger": "something that is no answer to this order",
        "nan": "not finite",
    }
    liar, found = shops.names[0], {}
    for name, told in {"lies": list(lies), "silence": ["refused"] * len(lies)}.items():
        shops.kill(liar, signal.SIGTERM)
        shops.start(liar, lies=["", *told])
        found[name] = shops.run(tmp_path / name, *ALL)
        failed = [row["failed"] for row in rows_of(tmp_path / name)]
        assert [list(each) for each in failed] == [[], *[["0"]] * len(lies), []]
        if name == "lies":
            for said, expected in zip(failed[1:-1], lies.values(), strict=True):
                assert expected in said["0"]
    assert found["lies"]["digest"] == found["silence"]["digest"]
    assert found["lies"]["test"] == found["silence"]["test"]
    shops.kill(liar, signal.SIGTERM)
    shops.start(liar)


@pytest.mark.slow
def test_a_full_disk_at_a_node_fails_its_client_until_there_is_room(shops, tmp_path):
    name = shops.names[1]
    with small_disk(shops.root / "nodes" / name / "memories") as folder:
        process = shops.begin(tmp_path / "run", *ALL, "codec.name=quantized", "codec.feedback=true", "rounds=60")
        shops.wait_for_round(tmp_path / "run", 1)
        fill(folder / "filler")
        full = len(rows_of(tmp_path / "run"))
        shops.wait_for_round(tmp_path / "run", full + 4)
        (folder / "filler").unlink()
        assert process.wait(WAIT_SECONDS) == 0
    failed = [row["failed"] for row in rows_of(tmp_path / "run")]
    assert [each for each in failed if each] == [{"1": "cannot serve request"}] * sum(map(bool, failed))
    assert not failed[0]
    assert failed[full + 2]
    assert not failed[-1]
    assert "cannot be written: No space left on device" in shops.log(name)


def fill(path):
    """Leave no room on a disk."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 12))
        except OSError:
            pass


@contextmanager
def small_disk(path):
    """A disk of two megabytes at a folder, while the block lasts."""
    path.mkdir(exist_ok=True)
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", path], check=False).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)
