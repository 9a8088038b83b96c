"""Options of the runtime, what is said where Ray is not there; all laws, over a Ray that is there already."""

import sys

import pytest

from fedgraft.errors import InputError
from fedgraft.runtimes.ray import Ray
from fedgraft.testing import runtimes
from helpers.laws import held
from helpers.toy_runs import toy


def on_ray(plan, shards):
    return Ray(actors=2).start(plan, shards)


@pytest.fixture(scope="module")
def ray():
    """A Ray of two CPUs."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'fedgraft[ray]'")
    from helpers.ray_clusters import local_ray

    with local_ray() as found:
        yield found


@pytest.mark.federation
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize("law", held({"two actors": runtimes.laws(on_ray)}))
def test_keeps_the_law(law):
    law()


@pytest.mark.parametrize("actors", [0, -2])
def test_impossible_options_are_refused(actors):
    with pytest.raises(InputError, match=rf"^runtime\.actors must be >= 1, or -1 for one per CPU .*; got {actors}\.$"):
        Ray(actors=actors)


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("fedgraft.runtimes.ray_cluster")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    experiment = toy(runtime={"name": "ray"})
    with pytest.raises(InputError) as caught:
        experiment.runtime.start(experiment.plan, experiment.data.load(1))
    assert str(caught.value) == "runtime.name = 'ray' needs the package ray: pip install 'fedgraft[ray]'."
