"""A Ray of our own, and addresses: how they begin and end."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'fedgraft[ray]'")

import ray

from fedgraft.errors import InputError
from fedgraft.runtimes.ray_cluster import cluster
from helpers.tiny import ARGUMENTS

pytestmark = [
    pytest.mark.federation,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_a_ray_of_our_own_has_the_cpus_asked_for_and_leaves_nothing(tmp_path, monkeypatch):
    made = []
    make = cluster.tempfile.mkdtemp
    monkeypatch.setattr(cluster.tempfile, "mkdtemp", lambda **options: made.append(make(**options)) or made[-1])
    handler, blocked = signal.getsignal(signal.SIGTERM), signal.pthread_sigmask(signal.SIG_BLOCK, [])
    ours = cluster.Cluster("", 3, "runtime.address =")
    try:
        assert cluster.cpus() == 3
        assert os.path.isdir(made[0])
        assert signal.getsignal(signal.SIGTERM) == handler
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == blocked
        beside = cluster.Cluster("", 1, "runtime.address =")
        beside.close()
        assert ray.is_initialized(), "what is there already is left alone"
    finally:
        ours.close()
        ours.close()
    assert not ray.is_initialized()
    assert not os.path.exists(made[0])


def test_an_address_that_leads_nowhere_is_one_line(monkeypatch):
    monkeypatch.setattr(cluster.ray, "init", _refused)
    said = r"^runtime\.address = '10\.0\.0\.1:6379' leads to no Ray cluster: Failed to connect to GCS\.$"
    with pytest.raises(InputError, match=said):
        cluster.Cluster("10.0.0.1:6379", 1, "runtime.address =")


def _refused(*arguments, **options):
    raise RuntimeError("Failed to connect\n to GCS")


@pytest.mark.slow
def test_ctrl_c_for_the_whole_group_stores_the_run(tmp_path):
    folder = tmp_path / "run"
    changes = [each for each in ARGUMENTS if not each.startswith(("runtime.", "rounds="))]
    command = [sys.executable, "-m", "fedgraft", "run", "fedacs", *changes, "runtime.name=ray", "runtime.actors=1"]
    process = subprocess.Popen(
        [*command, "rounds=2000", "--out", str(folder), "-q"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until = time.monotonic() + 300
    while not (folder / "rounds.jsonl").exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "Interrupted. Continue with: fedgraft resume" in err
    rows = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    assert 0 < len(rows) < 2000
    assert all(row["failed"] == {} for row in rows)
