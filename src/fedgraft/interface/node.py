"""`fedgraft node`: a site's own process, which holds its data and answers the server's orders."""

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from fedgraft.engine.privacy.policy import Policy
from fedgraft.engine.privacy.secure_sum import Assurance
from fedgraft.errors import InputError
from fedgraft.experiment.job import Job, load
from fedgraft.experiment.policies import own_policy, read_policy, require_allowed
from fedgraft.experiment.predicting.site_run import write_site_run
from fedgraft.experiment.recipes import server_choices
from fedgraft.experiment.running import portable
from fedgraft.experiment.storage import disk
from fedgraft.experiment.storage.sites import Site
from fedgraft.interface.plan_of import plan_of
from fedgraft.runtimes.federation.audit import FILE, AuditLog
from fedgraft.runtimes.federation.audit_head import AGAIN
from fedgraft.runtimes.federation.certificates import key_of
from fedgraft.runtimes.federation.folders import NodeFolder
from fedgraft.runtimes.federation.journal import Journal
from fedgraft.runtimes.federation.node import Node
from fedgraft.runtimes.federation.node_lock import alone_in
from fedgraft.runtimes.federation.signers import registered_keys
from fedgraft.runtimes.federation.site_link import SiteLink
from fedgraft.wire.tokens import SECRET_BYTES

MEMORIES, RUNS = "memories", "runs"
"""What a node keeps beside its configuration: what its client remembers, and the models that runs left."""


def serve_node(
    path: Path,
    data: Sequence[str],
    say: Callable[[str], None],
    stop: Callable[[], bool],
    policy: Path | None = None,
    head: str = "",
) -> None:
    """Check the data against the recipe, join the federation, and answer until told to stop.

    Args:
        path: of the node's folder, as 'fedgraft federation init' made it.
        data: a file of 'fedgraft shard', a table, or NAME=FILE for each of several tables.
        say: tells the user something.
        stop: whether to end.
        policy: a file that says what may leave, None for what the folder's recipe asks for.
        head: a hash that the server was told of this node's audit log, which must have it; "" for none.

    Raises `InputError` for what is wrong with folder, data or policy, and `MachineError` where the server does not let
    the node in.
    """
    folder = NodeFolder.read(path)
    with alone_in(folder.path):
        node = node_of(folder, data, say, policy, head)
        say(f"{folder.name}: data fit the recipe; joining {folder.address} as client {folder.client}.")
        SiteLink(folder).serve(node.answer, stop)


def node_of(
    folder: NodeFolder, data: Sequence[str], say: Callable[[str], None], policy: Path | None = None, head: str = ""
) -> Node:
    """Return a node once its data are checked against the recipe; arguments and errors as of `serve_node`.

    Nobody else may have one of the same folder (`alone_in`).
    """
    server_choices.check_allowed(folder.limits.allow)
    own = load(str(folder.recipe))
    portable.begin_again(own.runtime)
    allowed = own_policy(own, read_policy(policy)) if policy else None
    if allowed:
        require_allowed(own, allowed, str(policy))
        check_server(folder, allowed)
    if own.plan.collection.assurance == Assurance.SIGNED:
        registered_keys(folder, "")
    log = AuditLog(folder.path / FILE, None if folder.insecure else folder.key.read_bytes())
    if head and not any(line["hash"] == head for line in log.holding(head)):
        raise InputError(
            f"{folder.path / FILE} has no line with the hash {head}, which the server was told: it was cut, or put "
            f"back from a copy. Put back the newest one. {AGAIN}"
        )
    return _node(folder, own, data, say, allowed, log)


def _node(
    folder: NodeFolder,
    own: Job,
    data: Sequence[str],
    say: Callable[[str], None],
    allowed: Policy | None,
    log: AuditLog,
) -> Node:
    """Return the node of a folder, once its data are checked."""
    if not folder.own.exists():
        content = secrets.token_hex(SECRET_BYTES).encode()
        disk.replace(folder.path, {folder.own.name: content}, disk.PRIVATE)
    known = folder.clients, folder.secret(), folder.own_secret()
    site = Site(own, list(data), folder.client, folder.name, "", *known)
    site.check()
    return Node(
        folder.client,
        None,
        folder.path / MEMORIES,
        lambda recipe: plan_of(recipe, own, folder.limits, allowed),
        take_model=lambda run, *left: _keep(folder, run, left, site, say),
        read_data=site.read,
        seal=site.seal,
        mask_root=site.mask_root,
        memory_key=site.memory_key,
        keys=partial(registered_keys, folder),
        in_time=folder.limits.in_time,
        journal=Journal(log, folder.limits.points),
    )


def check_server(folder: NodeFolder, policy: Policy) -> None:
    """Raise `InputError` where the server that a node's folder trusts is not the one of its policy."""
    try:
        key = "no key, for it is insecure" if folder.insecure else key_of(folder.certificate.read_bytes())
    except ValueError as error:
        raise InputError(f"{folder.certificate} is no certificate: {error}") from error
    if policy.server not in ("", key):
        raise InputError(f"policy.server is {policy.server}, and this federation has {key} ({folder.certificate}).")


def _keep(node: NodeFolder, run: str, left: Sequence[bytes], site: Site, say: Callable[[str], None]) -> None:
    """Keep what a run leaves this site, to predict with."""
    folder = node.path / RUNS / run
    write_site_run(folder, left, node.client, node.name, site.data, site.digest, site.neighbours)
    say(f"A run has ended; what it leaves is in {folder}. Use it: fedgraft predict {folder} -o answers.csv ...")
