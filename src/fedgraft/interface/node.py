"""`fedgraft node`: a site's own process, which holds its data and answers the server's orders."""

import logging
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import torch

from fedgraft.engine.plan import Plan
from fedgraft.errors import InputError, MachineError
from fedgraft.experiment.experiment import Experiment, load
from fedgraft.experiment.predicting.site_run import write_site_run
from fedgraft.experiment.recipes.agreeing import is_unsaid
from fedgraft.experiment.recipes.recipe import contents, outside_names, section_of
from fedgraft.experiment.running import portable
from fedgraft.experiment.storage import disk
from fedgraft.experiment.storage.sites import AGREED, Site
from fedgraft.runtimes.flower_federation.child import UNKNOWN_KEY, last_line
from fedgraft.runtimes.flower_federation.folders import NodeFolder
from fedgraft.runtimes.flower_federation.node import Node
from fedgraft.runtimes.flower_federation.site_limits import SiteLimits
from fedgraft.runtimes.flower_federation.supernode import SuperNode
from fedgraft.wire.tokens import SECRET_BYTES

LOG = logging.getLogger("fedgraft.node")
TAKEN = "Failed to activate SuperNode"
"""What Flower says to a node that is connected already."""
DROPPED = "401 Unauthorized"
"""What it says to one whose key is unknown by now, if that does not end in order."""
KEY_HINT = "It was removed, has been given another one, or was not added yet: ask the server's operator."
FREE_SECONDS, AGAIN_SECONDS = 120.0, 3.0
"""How long to try to connect again then, and how often."""
MEMORIES, RUNS, HOME, LOGFILE = "memories", "runs", "flwr", "supernode.log"
"""What a node keeps beside its configuration: what its client remembers, the models that runs left, Flower's things."""


def serve_node(path: Path, data: Sequence[str], say: Callable[[str], None], stop: Callable[[], bool]) -> None:
    """Check the data against the recipe, join the federation, and answer until told to stop.

    `path` is the node's folder, as 'fedgraft federation init' made it; `data` a file of 'fedgraft shard', a table, or
    NAME=FILE for each of several tables. Raises `InputError` for what is wrong with folder or data, and `MachineError`
    where Flower's SuperNode ends.
    """
    folder = NodeFolder.read(path)
    own = load(str(folder.recipe))
    portable.begin_again(own.runtime)
    if not folder.own.exists():
        content = secrets.token_hex(SECRET_BYTES).encode()
        disk.replace(folder.path, {folder.own.name: content}, disk.PRIVATE)
    known = folder.clients, folder.secret(), folder.own_secret()
    site = Site(own, list(data), folder.client, folder.name, "", *known)
    site.check()
    node = Node(
        folder.client,
        None,
        folder.path / MEMORIES,
        lambda recipe: plan_of(recipe, own, folder.limits),
        take_model=lambda run, *left: _keep(folder, run, left, site, say),
        read_data=site.read,
        seal=site.seal,
        limits=folder.limits,
    )
    say(f"{folder.name}: data fit the recipe; joining {folder.address} as client {folder.client}.")
    _answer(node, folder, stop)


def _keep(node: NodeFolder, run: str, left: Sequence[bytes], site: Site, say: Callable[[str], None]) -> None:
    """Keep what a run leaves this site, to predict with."""
    folder = node.path / RUNS / run
    write_site_run(folder, left, node.client, node.name, site.data, site.digest, site.neighbours)
    say(f"A run has ended; what it leaves is in {folder}. Use it: fedgraft predict {folder} -o answers.csv ...")


def plan_of(recipe: bytes, own: Experiment, limits: SiteLimits | None = None) -> Plan:
    """Return the plan of what a server runs.

    Raises `InputError` where it is not what this site has data for, or beyond its `limits`, None = the usual ones.

    Classes that are not fedgraft's are found only where the node's own recipe names them.
    """
    text = recipe.decode(errors="replace")
    theirs, known = contents(text, "The server's recipe"), contents(own.to_toml(), "This node's recipe")
    (limits or SiteLimits()).check(theirs)
    for name, agreed in AGREED.items():
        open_ones = [key for key in agreed if is_unsaid(known[name].get(key))]
        if _plain(section_of(theirs, name), open_ones) != _plain(known[name], open_ones):
            raise InputError(f"its [{name}] is not that of this node's recipe")
    if strange := sorted({*outside_names(theirs)} - {*outside_names(known)}):
        raise InputError(f"it names the class {strange[0]!r}, which this node's recipe does not")
    experiment = Experiment.from_toml(text, "The server's recipe")
    portable.check(experiment.runtime)
    torch.set_num_threads(experiment.runtime.threads)
    return experiment.plan


def _answer(node: Node, folder: NodeFolder, stop: Callable[[], bool]) -> None:
    """Answer orders until told to stop. Raises `MachineError` where the SuperNode ends before."""
    until = time.monotonic() + FREE_SECONDS
    while not stop():
        code = _answered_until_it_ends(node, folder, stop)
        reason = last_line(folder.path / LOGFILE)
        if UNKNOWN_KEY in (said := (folder.path / LOGFILE).read_text(errors="replace")):
            raise MachineError(f"{UNKNOWN_KEY}: {folder.address} does not know {folder.key}. {KEY_HINT}")
        if stop() or _may_connect_again(code, said, time.monotonic() < until):
            continue
        raise MachineError(f"Flower's SuperNode has ended (exit code {code}): {reason}")


def _answered_until_it_ends(node: Node, folder: NodeFolder, stop: Callable[[], bool]) -> int:
    """Run a SuperNode until told to stop or until it ends; return its exit code."""
    with open(folder.path / LOGFILE, "wb") as log:
        supernode = SuperNode(folder.address, folder.trust(), folder.path / HOME, log)
        try:
            supernode.serve(node.answer, stop)
        finally:
            supernode.close()
        return supernode.wait()


def _may_connect_again(code: int, said: str, is_new: bool) -> bool:
    """Return whether to try again, after a while.

    The server may hold a node that has just begun for connected, after a kill. One whose key is unknown by now has been
    dropped, which it hears of as it connects again; or it has its new key already.
    """
    time.sleep(AGAIN_SECONDS)
    return code == 0 or DROPPED in said or (is_new and TAKEN in said)


def _plain(section: Any, but: Collection[str]) -> Any:
    """Return a section as TOML has it, but for some keys, and where its data are, which differs by machine."""
    every = {key: value for key, value in (section or {}).items() if key not in but}
    known = {key: value for key, value in every.items() if not str(value).startswith("/")}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in known.items()}
