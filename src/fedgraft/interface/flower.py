"""A federation over Flower's own SuperLink and SuperNodes: its apps are `server` and `client`.

A run's configuration says `federation`, the federation's folder, `recipe`, what is run on it, and `folder`, where the
run is kept, or taken up. A node's says `folder`, that of the site, and `data`, as `fedgraft node --data` has it, with
commas between files.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgraft.experiment.running import runner
from fedgraft.interface import federated
from fedgraft.interface.federated_run import Nodes
from fedgraft.interface.node import node_of
from fedgraft.runtimes.federation.folders import FederationFolder, NodeFolder, alone_in
from fedgraft.runtimes.flower_apps.apps import GridLink, client_app, server_app


def _run(grid: Any, context: Any) -> None:
    """Begin a run at Flower's nodes, or take it up."""
    config: Mapping[str, Any] = context.run_config
    federation, folder = FederationFolder.read(Path(str(config["federation"]))), Path(str(config["folder"]))
    nodes = Nodes(federation, print, GridLink(grid))
    if (folder / "experiment.toml").exists():
        runner.resume(folder, sites=nodes)
    else:
        recipe = str(config["recipe"])
        runner.execute(federated.on_federation(recipe, {}, federation), folder, sites=nodes)


def _answer(config: Mapping[str, Any], joined: bytes, order: bytes) -> bytes:
    """Answer an order in a process that Flower may have begun for it alone: what a node knows is on its disk."""
    folder = NodeFolder.read(Path(str(config["folder"])))
    with alone_in(folder.path):
        node = node_of(folder, str(config["data"]).split(","), print)
        if joined:
            node.answer(joined)
        return node.answer(order)


server, client = server_app(_run), client_app(_answer)
