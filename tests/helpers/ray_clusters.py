"""A Ray cluster of several nodes on this machine, small, and without Ray's warnings."""

import gc
import os
import shutil
import signal
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path

os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # or Ray warns
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
NODE = {"num_cpus": 1, "object_store_memory": 100 << 20}
"""What each node has."""
QUIET = {"log_to_driver": False, "logging_level": "error", "configure_logging": False}


@contextmanager
def local_ray(cpus=2):
    """A Ray that this process has initialised."""
    import ray

    with _folder() as folder, unwarned():
        ray.init(
            "local", num_cpus=cpus, include_dashboard=False, object_store_memory=100 << 20, _temp_dir=folder, **QUIET
        )
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def cluster_of(workers):
    """A cluster whose head has no CPU, so that actors live on other nodes: (cluster, those nodes)."""
    import ray
    from ray._private.utils import get_ray_address_file
    from ray.cluster_utils import Cluster

    with _folder() as folder, unwarned():
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 100 << 20, "temp_dir": folder}
        # Ray notes the cluster's address in its own folder, which it does not make where a cluster has another.
        Path(get_ray_address_file(None)).parent.mkdir(parents=True, exist_ok=True)
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            nodes = [cluster.add_node(**NODE, temp_dir=folder) for _ in range(workers)]
            ray.init(cluster.address, **QUIET)
            yield cluster, nodes
        finally:
            ray.shutdown()
            cluster.shutdown()


@contextmanager
def _folder():
    """A short name: sockets have one behind it."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def unwarned():
    """Let Ray leave its processes and files unclosed, which Python would warn of, here or in a later test."""
    handler = signal.getsignal(signal.SIGTERM)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
        gc.collect()
    signal.signal(signal.SIGTERM, handler)
