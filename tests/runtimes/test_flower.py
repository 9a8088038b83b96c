"""Flower's simulation: the same bits and bytes as worker processes; options and errors."""

import pytest

from fedgraft.errors import InputError
from fedgraft.runtimes.flower import Flower
from helpers.ray_clusters import unwarned
from helpers.task_runs import RUNS, simulated, whole

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")
pytest.importorskip("ray", reason="the extra 'ray' is not installed")


@pytest.mark.federation
@pytest.mark.parametrize(
    "name", [name if name == "node" else pytest.param(name, marks=pytest.mark.slow) for name in RUNS]
)
def test_a_run_of_every_task_ends_with_the_bits_and_bytes_of_processes(name):
    with unwarned():
        found = simulated(name)
    assert found == whole(name)


def test_options_are_checked():
    with pytest.raises(InputError, match=r"runtime\.actors must be >= 1, or -1 for one per core; got 0\."):
        Flower(actors=0)
    with pytest.raises(InputError, match=r"runtime\.join_seconds must be >= 0"):
        Flower(join_seconds=-1)


def test_a_missing_package_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "flwr", None)
    monkeypatch.delitem(__import__("sys").modules, "fedgraft.runtimes.flower_federation.simulation", raising=False)
    with pytest.raises(InputError, match=r"needs the package flwr.*: pip install 'fedgraft\[flower,ray\]'\."):
        Flower().start(None, [])
