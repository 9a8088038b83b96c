"""A federation in this process: nodes that read their data as a site does, behind a link that needs no network."""

from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from fedgraft.contracts.runtime import fingerprint
from fedgraft.engine.client.own_secrets import RegisteredKeys
from fedgraft.engine.privacy.policy import Policy
from fedgraft.experiment import job as jobs
from fedgraft.experiment.job import Job
from fedgraft.experiment.predicting.site_run import pack_site_run, write_site_run
from fedgraft.experiment.running import runner
from fedgraft.experiment.storage.client_files import shard
from fedgraft.experiment.storage.provenance import RemoteClient
from fedgraft.experiment.storage.sites import Site
from fedgraft.interface import federated_run
from fedgraft.interface.federated_run import joined_alike
from fedgraft.interface.plan_of import plan_of
from fedgraft.runtimes.federation.audit import FILE, AuditLog
from fedgraft.runtimes.federation.certificates import node_key
from fedgraft.runtimes.federation.journal import Journal
from fedgraft.runtimes.federation.node import Node
from fedgraft.runtimes.federation.nodes_runtime import NodesRuntime
from helpers.local_nodes import LocalLink


class Restarted(Node):
    """A node that is ended whenever it has answered that it joins."""

    def answer(self, data: bytes) -> bytes:
        reply = super().answer(data)
        if self._runs and all(joined.client is None for joined in self._runs.values()):
            self._runs.clear()
        return reply


def traffic(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """All orders to nodes and their answers, from now on."""
    sent, answered = list[bytes](), Node.answer

    def answer(node: Node, data: bytes) -> bytes:
        sent.extend([data, answered(node, data)])
        return sent[-1]

    monkeypatch.setattr(Node, "answer", answer)
    return sent


class LocalSites:
    """What the runner takes for the sites of a federation.

    Args:
        experiment: the recipe of all.
        data: what each site has, as the node's command takes it.
        names: of the clients.
        root: of the nodes' folders.
        allowed: what the sites let leave; None = what the recipe asks for.
    """

    def __init__(
        self,
        experiment: Job,
        data: list[list[str]],
        names: list[str],
        root: Path,
        allowed: Policy | None = None,
    ) -> None:
        self.where, self.names, self.root, self.own = str(root), names, root, experiment
        self.sites = []
        nodes, plan_for = {}, partial(plan_of, own=experiment, allowed=allowed)
        pairs = [node_key(name) for name in names]
        for client, (name, given) in enumerate(zip(names, data, strict=True)):
            secrets = {"secret": bytes(range(32)), "own_secret": bytes([client]) * 32}
            site = Site(experiment, given, client, name, clients=tuple(names), **secrets)
            site.check()
            self.sites.append(site)
            (root / name).mkdir(parents=True, exist_ok=True)
            keep, memories = self._keep(client, given, site), root / name / "memories"
            nodes[client] = Node(
                client,
                None,
                memories,
                plan_for,
                take_model=keep,
                read_data=site.read,
                seal=site.seal,
                mask_root=site.mask_root,
                memory_key=site.memory_key,
                keys=partial(self._registered, pairs[client].private, [pair.public for pair in pairs]),
                journal=Journal(AuditLog(root / name / FILE)),
            )
        self.link = LocalLink(nodes)

    @staticmethod
    def _registered(private, public, run):
        return RegisteredKeys(run, private, lambda client: public[client])

    def _keep(self, client, given, site):
        def take_model(run, *left):
            name = self.names[client]
            write_site_run(self.root / name / "runs" / run, left, client, name, given, site.digest, site.neighbours)

        return take_model

    @contextmanager
    def joined(self, experiment, run, count=None):
        self.runtime = NodesRuntime(self.link, run, len(self.names), experiment.to_toml().encode())
        experiment = federated_run.lasting(joined_alike(experiment, self.runtime), self.own)
        yield experiment, self.runtime, [RemoteClient(site.name, site.digest) for site in self.sites]

    def leave(self, experiment, state, summary):
        left = {
            client: pack_site_run(experiment, state, summary, client, self.names[client]) for client in state.joined
        }
        assert self.runtime.hand_over(left, 10) == []

    def fingerprints(self, memories):
        """What the sites alone can tell; it is compared with what clients remember on one machine."""
        stores = {client: self._store(client) for client in memories if client >= 0}
        return {client: fingerprint(store.load(memories[client])) for client, store in stores.items()}

    def _store(self, client):
        (joined,) = self.link.by_id[100 + client]._runs.values()
        return joined.store

    def run_folder(self, name: str) -> Path:
        """Where a site keeps what the only run has left it."""
        (found,) = (self.root / name / "runs").iterdir()
        return found


def federated(recipe, changes, data, names, root):
    """Run a recipe at sites; return the summary and the sites. The server's folder is root / "run"."""
    kept = {key: value for key, value in changes.items() if not key.startswith("runtime.")}
    experiment = jobs.load(recipe, {**kept, "runtime.name": "sites", "baselines": []})
    sites = LocalSites(experiment, data, names, root / "nodes")
    return runner.execute(experiment, root / "run", sites=sites), sites


def federated_files(recipe, changes, root):
    """The same with the files of `fedgraft shard`; the recipe is the one that it writes."""
    names = []
    paths = shard(jobs.load(recipe, changes), root / "shards", lambda name, *_: names.append(name))
    return federated(str(root / "shards" / "recipe.toml"), {}, [[str(path)] for path in paths], names, root)
