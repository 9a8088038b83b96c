"""A cluster of several nodes, of which one is lost in the middle of a run."""

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'fedgraft[ray]'")

import ray

from fedgraft.runtimes.ray_cluster.ray_runtime import RayChannel
from helpers.ray_clusters import cluster_of
from helpers.task_runs import on_ray, whole

pytestmark = [
    pytest.mark.federation,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_a_run_over_two_nodes_of_which_one_is_lost_ends_the_same(monkeypatch):
    with cluster_of(2) as (cluster, nodes):
        send, sent, homes, lost = RayChannel.send, [0], {}, []

        def losing(channel, *values):
            """Send; at the ninth message, or the first after it to such an actor, take its node away."""
            sent[0] += 1
            if channel not in homes and not lost:
                homes[channel] = ray.get(channel._actor.__ray_call__.remote(_home))
            send(channel, *values)
            if sent[0] >= 9 and not lost:
                lost.extend(node for node in nodes if node.node_id == homes[channel])
                for node in lost:
                    cluster.remove_node(node, allow_graceful=False)

        monkeypatch.setattr(RayChannel, "send", losing)
        result = on_ray("node", runtime__address="auto")
        assert len(lost) == 1, f"actors were on {set(homes.values())}"
        assert len(cluster.worker_nodes) == 1
        assert ray.is_initialized()
    assert result == whole("node")


def _home(actor):
    return ray.get_runtime_context().get_node_id()
