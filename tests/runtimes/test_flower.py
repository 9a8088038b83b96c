"""Flower's simulation: the same bits and bytes as worker processes; options and errors."""

import sys
import threading
from types import SimpleNamespace

import pytest

from fedgraft.errors import InputError, MachineError
from fedgraft.runtimes.flower import Flower
from helpers.ray_clusters import unwarned
from helpers.task_runs import ELSEWHERE, simulated, whole
from helpers.toy_runs import toy

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")
pytest.importorskip("ray", reason="the extra 'ray' is not installed")


@pytest.mark.federation
@pytest.mark.parametrize(
    "name", [name if name == "node" else pytest.param(name, marks=pytest.mark.slow) for name in ELSEWHERE]
)
def test_a_run_of_every_task_ends_with_the_bits_and_bytes_of_processes(name, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # of a cluster that is none of its business
    with unwarned():
        found = simulated(name)
    assert found == whole(name)


def test_a_simulation_that_fails_ends_the_run_with_the_first_cause(monkeypatch):
    asked = threading.Event()

    def ids():
        asked.set()
        return []

    def failing(server, client, nodes, backend_config):
        threading.Thread(target=server, args=(SimpleNamespace(get_node_ids=ids), None), daemon=True).start()
        assert asked.wait(60), "the run has begun to wait for its nodes"
        raise RuntimeError("Simulation Runtime crashed.") from ValueError("no room for Ray")

    monkeypatch.setattr("fedgraft.runtimes.flower_apps.simulation.run_simulation", failing)
    experiment = toy()
    with pytest.raises(MachineError, match=r"^Flower's simulation has failed: no room for Ray\.$"):
        Flower(actors=1).start(experiment.plan, experiment.data.load(1))


def test_options_are_checked():
    with pytest.raises(InputError, match=r"runtime\.actors must be >= 1, or -1 for one per core; got 0\."):
        Flower(actors=0)


def test_a_missing_package_is_named_with_the_extra(monkeypatch):
    simulation = "fedgraft.runtimes.flower_apps.simulation"
    for name in [name for name in sys.modules if name.startswith("flwr.") or name == simulation]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(InputError, match=r"needs the package flwr.*: pip install 'fedgraft\[flower,ray\]'\."):
        Flower().start(None, [])
