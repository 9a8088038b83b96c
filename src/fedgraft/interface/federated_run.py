"""The nodes of a federation as a run uses them: who may take part, what they agree on, what is left to them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fedgraft.contracts import Runtime
from fedgraft.engine.protocol.codes import LOG as LOG_REFUSED
from fedgraft.engine.protocol.codes import POLICY, RECIPE
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import FedgraftError, InputError, RefusedError
from fedgraft.experiment.job import Job, load
from fedgraft.experiment.predicting.site_run import pack_site_run
from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.experiment.storage import disk
from fedgraft.experiment.storage.matching import CLAIMED, cross_client_nodes, matched_at_sites, read_told, write_told
from fedgraft.experiment.storage.provenance import RemoteClient
from fedgraft.experiment.storage.sites import PUBLISHED
from fedgraft.interface.plan_of import plan_of
from fedgraft.runtimes.federation.folders import FederationFolder
from fedgraft.runtimes.federation.journal import FORGET
from fedgraft.runtimes.federation.members import Link, Members
from fedgraft.runtimes.federation.nodes_runtime import NodesRuntime
from fedgraft.runtimes.federation.operator_socket import ServerLink
from fedgraft.runtimes.federation.signed_requests import node_id

MATCHES: Final = "matches"
"""Folder of the server with what nodes of each run were told of their edges to others."""
AUDITS: Final = "audits"
"""Folder of the server with the heads that nodes' audit logs had when a run ended."""
HEADS: Final = "heads.json"
"""File there with the last head that each node has told, in whatever run."""
EDGES: Final = "edges to others"
"""What nodes claim, for errors."""
HAND_OVER_SECONDS: Final = 60.0
"""How long nodes are waited for that are to be given the trained model."""


def joined_alike(experiment: Job, runtime: NodesRuntime) -> Job:
    """Wait until the nodes have joined; return the experiment with data read by what they agree on.

    Where they must agree first, from what each publishes, or edges between them are to be joined, by what each claims,
    they join again with what came of it; before that once more where each is to mask what others claim.
    """
    seconds, members = getattr(experiment.runtime, "join_seconds", 0.0), runtime.members
    runtime.wait_for_all(seconds)
    published, claimed = _said(members, PUBLISHED, "statistics of its columns"), _said(members, CLAIMED, EDGES)
    if published:
        experiment = experiment.agreed_from(published, at_sites=True)

    def again() -> None:
        members.begin_again(experiment.to_toml().encode())
        runtime.wait_for_all(seconds)

    def ask(orders: Mapping[int, bytes]) -> Mapping[int, bytes]:
        members.told = orders
        again()
        return _said(members, CLAIMED, EDGES)

    if claimed:
        experiment, members.told = matched_at_sites(experiment, claimed, len(runtime.clients()), ask)
    if published or claimed:
        again()
    return experiment.after(neighbours=cross_client_nodes(members.told)) if members.told else experiment


def lasting(experiment: Job, own: Job) -> Job:
    """Return the experiment with noise for the rounds of the nodes' own recipe where these are more, as nodes make it.

    Codes of a sum have bits by its noise, so that both ends must know it.
    """
    plan = experiment.plan
    rounds = max(plan.rounds, own.plan.rounds)
    return replace(experiment, plan=replace(plan, rounds=rounds)) if plan.collection.noisy else experiment


def _said(members: Members, name: str, what: str) -> dict[int, bytes]:
    """What nodes have said of themselves under a name, {client: bytes}. Raises `InputError` for anything else."""
    said = {client: each[name] for client, each in sorted(members.about.items()) if name in each}
    for client, each in said.items():
        if not isinstance(each, bytes):
            raise InputError(f"Client {client} has published something that is no {what}.")
    return said


class _Roster:
    """Who may take part in a run of so many clients, as the federation's folder says from moment to moment."""

    def __init__(self, folder: FederationFolder, count: int) -> None:
        self._path, self._count = folder.path, count

    def nodes(self) -> dict[int, int]:
        """{node: client}."""
        folder = FederationFolder.read(self._path)
        names = list(folder.clients)[: self._count]
        return {node_id(key): names.index(name) for name, key in folder.public_keys().items() if name in names}

    def keyless(self) -> frozenset[int]:
        """Clients whose site has no key."""
        return FederationFolder.read(self._path).keyless() & {*range(self._count)}


class Nodes:
    """The sites of a federation, as the runner uses them.

    Args:
        folder: of the federation.
        note: says something to the user.
        link: another way to the nodes, which then say themselves who they are; None = the federation's server.
    """

    def __init__(self, folder: FederationFolder, note: Callable[[str], None], link: Link | None = None) -> None:
        self._folder, self._note, self._link = folder, note, link
        self.where = str(folder.path)
        self._runtime: NodesRuntime | None = None
        self._run = ""

    @contextmanager
    def joined(
        self, experiment: Job, run: str, count: int | None = None
    ) -> Iterator[tuple[Job, Runtime, Sequence[Any]]]:
        """Enter once the nodes have joined, with an experiment that says how all read their data."""
        folder, names = self._folder, self._folder.clients[:count]
        roster = None if folder.insecure or self._link else _Roster(folder, len(names))
        recipe = experiment.to_toml().encode()
        runtime = NodesRuntime(self._link or ServerLink(folder, run), run, len(names), recipe, roster, self._note)
        self._runtime, self._run = runtime, run
        kept, heads = folder.server / MATCHES / f"{run}.bin", folder.server / AUDITS / HEADS
        runtime.members.heads = _known_heads(heads, names)
        try:
            runtime.members.told = read_told(kept)
            try:
                experiment = lasting(joined_alike(experiment, runtime), load(str(folder.recipe)))
            except RefusedError as error:
                more = _beside_own(experiment, folder, error.code) or (error.code == LOG_REFUSED and f" {FORGET}")
                raise InputError(f"{error}{more or ''}") from error
            write_told(kept, runtime.members.told)
            about = runtime.members.about
            clients = [RemoteClient(name, str(about.get(k, {}).get("data"))) for k, name in enumerate(names)]
            yield experiment, runtime, clients
        finally:
            _keep_heads(heads, {names[client]: head.hex() for client, head in runtime.members.heads.items()})
            runtime.close()

    def leave(self, experiment: Job, state: RunState, summary: Mapping[str, Any]) -> None:
        """Give every node the model that the run leaves its client."""
        runtime, names, folder = self._runtime, self._folder.clients, self._folder.server / AUDITS
        assert runtime is not None, "joined before"
        left = [client for client in state.joined if client not in runtime.members.gone]
        models = {client: pack_site_run(experiment, state, summary, client, names[client]) for client in left}
        for client in runtime.hand_over(models, HAND_OVER_SECONDS):
            self._note(f"{names[client]} could not be given its model; 'fedgraft resume' tries again.")
        if runtime.heads:
            _keep_heads(folder / f"{self._run}.json", {names[k]: head for k, head in sorted(runtime.heads.items())})
        if outside := sum(runtime.outside.values()):
            self._note(
                f"{human_bytes(outside)} of scoring went outside the protocol and are not in the ledger; "
                "evaluation.at=clients has them charged."
            )

    def fingerprints(self, memories: Mapping[int, bytes]) -> dict[int, bytes]:
        """Return nothing: a memory's name is under a key of its site, and differs from run to run."""
        return {}


def _beside_own(experiment: Job, folder: FederationFolder, code: str) -> str:
    """Return what a node with the federation's own recipe says of another one; "" where it takes it.

    A node tells no words. Most sites have the recipe that lies here, so that the operator need not ask them.
    """
    if code not in (RECIPE, POLICY):
        return ""
    try:
        plan_of(experiment.to_toml().encode(), load(str(folder.recipe)))
    except FedgraftError as error:
        return f" A node with {folder.recipe} says: {error}"
    return ""


def _known_heads(path: Path, names: Sequence[str]) -> dict[int, bytes]:
    """{client: the last head that its node has told of its audit log}, of those that have told any."""
    known = disk.read_table(path) if path.exists() else {}
    return {client: bytes.fromhex(known[name]) for client, name in enumerate(names) if name in known}


def _keep_heads(path: Path, heads: Mapping[str, Any]) -> None:
    """Keep {name of a client: what its node has told of its audit log}, beside those of clients that said it before."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    before = disk.read_table(path) if path.exists() else {}
    disk.replace(path.parent, {path.name: disk.json_table({**before, **heads})}, disk.PRIVATE)
