"""What a federated run leaves a client at its site: a folder that answers from the client's own data.

experiment.toml, origin.json, summary.json     as of a run, but of other clients' scores and data nothing
model.safetensors                              the shared parameters that this client answers with
memory.bin                                     what the client remembered at the end
site.toml                                      which client it is, and where its data are: to be changed by hand
neighbours.bin                                 where the other ends of its edges to other clients are, if it has any
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pandas as pd
import tomli_w

from fedgraft import wire
from fedgraft.contracts.abilities.matching import CLIENTS, ELSEWHERE, KNOWN_ELSEWHERE
from fedgraft.contracts.data import PeerClients
from fedgraft.engine.client.client_rows import shared_in
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import InputError, WireError
from fedgraft.experiment.job import Job
from fedgraft.experiment.storage import data_now, disk
from fedgraft.experiment.storage.client_files import SUFFIX
from fedgraft.experiment.storage.finished_run import FinishedRun, shared_model
from fedgraft.experiment.storage.folder_check import EXPERIMENT, MODEL, ORIGIN, SUMMARY
from fedgraft.experiment.storage.outside_classes import note_made
from fedgraft.experiment.storage.provenance import check_clients, origin_of
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.experiment.storage.sites import SiteData
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Arrays

SITE: Final = "site.toml"
MEMORY: Final = "memory.bin"
NEIGHBOURS: Final = "neighbours.bin"
_DATA: Final = "data"


def pack_site_run(experiment: Job, state: RunState, summary: Mapping[str, Any], client: int, name: str) -> bytes:
    """Return what a node is handed when a run has ended: its client's model, and its part of the summary."""
    own = {**summary, "test_per_client": {name: summary["test_per_client"].get(name)}}
    model = shared_model(experiment.plan, state, state.best_model, client)
    return wire.pack({"summary": json.dumps(own), "model": {**model}})


def write_site_run(
    folder: Path,
    left: Sequence[bytes],
    client: int,
    name: str,
    data: Sequence[str],
    digest: str,
    neighbours: PeerClients | None = None,
) -> None:
    """Store what a run leaves a client, where only the owner can read it; what was there of the same run is replaced.

    Args:
        folder: of this run at the site; made when missing.
        left: what was run, as the server said when the node joined; what `pack_site_run` made; what the client
            remembers; and the set-up message that it was sent. b"" for none.
        client: which client it is.
        name: of the client.
        data: where its data are, as `SiteData` takes it.
        digest: fingerprint of its data.
        neighbours: what the site knows of the other clients.

    Raises `InputError` for content that is none.
    """
    recipe, content, memory, set_up = left
    try:
        tree: Any = wire.unpack(content)
        model = disk.model_bytes(tree["model"])
        summary = disk.json_table(json.loads(tree["summary"]))
    except (WireError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"The server has sent something that is no result of a run ({error}).") from error
    experiment = Job.from_toml(recipe.decode(errors="replace"), "The server's recipe")
    origin = {**origin_of(experiment.recipe.sections, ()), "clients": {name: digest}}
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    contents = {
        MEMORY: disk.encrypted(wire.pack({"memory": memory, "set_up": set_up})),
        MODEL: model,
        SUMMARY: summary,
        ORIGIN: disk.json_table(origin),
        SITE: tomli_w.dumps({"client": client, "name": name, _DATA: [_absolute(each) for each in data]}).encode(),
        EXPERIMENT: recipe,
    }
    if neighbours is not None and neighbours.addresses is not None:
        known: Any = {"clients": list(neighbours.clients), "addresses": {**neighbours.addresses}}
        contents[NEIGHBOURS] = disk.encrypted(wire.pack(known))
    disk.replace(folder, contents, disk.PRIVATE)
    note_made(experiment.recipe.sections)


def open_run(folder: Path, data_root: Path | None = None, allow_changed_data: bool = False) -> FinishedRun:
    """Open a run's folder, and load the finished run in it; arguments as of `load_run`."""
    return load_run(RunFolder.open(folder), data_root, allow_changed_data)


def load_run(run_folder: RunFolder, data_root: Path | None = None, allow_changed_data: bool = False) -> FinishedRun:
    """Return a finished run, or what one has left a client at its site; arguments as of `FinishedRun`."""
    kind = SiteRun if (run_folder.folder / SITE).is_file() else FinishedRun
    return kind(run_folder, data_root, allow_changed_data)


class SiteRun(FinishedRun):
    """A finished run of a federation at one of its sites: one client, its data, its model.

    Args:
        run_folder: the folder in which the site keeps what the run left, opened.
        data_root: None; `site.toml` or the table "data" says where the data are.
        allow_changed_data: False; the rows of others that the client was told of belong to the data as they were.
    """

    def __init__(self, run_folder: RunFolder, data_root: Path | None = None, allow_changed_data: bool = False) -> None:
        path = run_folder.folder / SITE
        if data_root is not None or allow_changed_data:
            raise InputError(
                f"{run_folder.folder} is a site's: {SITE} or --data FILE{SUFFIX} says where its data are, and they "
                "must be those of the run; --data-root and --allow-changed-data are for runs whose clients' data are "
                "all here."
            )
        super().__init__(run_folder)
        try:
            site = tomllib.loads(disk.read_text(path))
            self._client, self._name, self._data = int(site["client"]), str(site["name"]), list(map(str, site[_DATA]))
        except (tomllib.TOMLDecodeError, KeyError, ValueError, TypeError) as error:
            raise InputError(f"{path} is damaged: it needs client, name and data ({error}).") from error

    def moved(self, tables: Mapping[str, Given | None]) -> dict[str, Given | None]:
        """Return tables but for "data" where that is a file of `fedgraft shard`: there the client's data are now."""
        file = tables.get(_DATA)
        if not isinstance(file, str | Path) or Path(file).suffix != SUFFIX:
            return dict(tables)
        self._data = [str(file)]
        for name in ("data", "elsewhere"):
            self.__dict__.pop(name, None)
        return {name: table for name, table in tables.items() if name != _DATA}

    @cached_property
    def data(self) -> data_now.DataNow:
        """The client's data alone. Raises `InputError` where they have changed."""
        where = str(self.run_folder.folder / SITE)
        try:
            shard = SiteData(self.experiment, self._data, self._client, self._name, self._neighbours).read()[0]
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        check_clients(self.run_folder.origin(), [shard], where)
        return data_now.DataNow([shard], [0])

    @cached_property
    def elsewhere(self) -> dict[str, pd.DataFrame]:
        """Tables that say what the site knows of nodes of others, `matching.CLIENTS` and `ELSEWHERE`, if there are any.

        Data of `fedgraft shard` do not tell the ids of such nodes.
        """
        if neighbours := self._neighbours:
            clients = list(neighbours.clients)
            known = SiteData(self.experiment, self._data, self._client, self._name, neighbours).elsewhere()
        elif getattr(self.shards[0], "halo", 0):
            clients, known = [self._name], pd.DataFrame(columns=list(KNOWN_ELSEWHERE))
        else:
            return {}
        return {CLIENTS: pd.DataFrame({"name": clients}), ELSEWHERE: known}

    @property
    def names(self) -> list[str]:
        """The client's name alone."""
        return [self._name]

    @property
    def newcomer_memory(self) -> Mapping[str, Any]:
        """Return the same, from what the client here remembers."""
        known = self._smoothed_by(self.memory(0).get("smoothing", {})) if self.plan.smoothing else {}
        publishing = self.plan.publishing
        if publishing is None:
            return known
        return {**known, "shared": publishing.common(shared_in(self.plan, self._kept["set_up"]))}

    def _memory(self, client: int) -> tuple[bytes, bytes]:
        return self._kept["memory"], self._kept["set_up"]

    def _shared(self, client: int) -> Arrays:
        return self.models

    @cached_property
    def _kept(self) -> dict[str, bytes]:
        tree = self._unencrypted(MEMORY)
        return {name: bytes(tree[name]) for name in ("memory", "set_up")}

    @property
    def _neighbours(self) -> PeerClients | None:
        if not (self.run_folder.folder / NEIGHBOURS).is_file():
            return None
        tree = self._unencrypted(NEIGHBOURS)
        return PeerClients(tuple(tree["clients"]), tree["addresses"])

    def _unencrypted(self, name: str) -> Any:
        path = self.run_folder.folder / name
        try:
            return wire.unpack(disk.unsealed(disk.read_bytes(path)))
        except WireError as error:
            raise InputError(f"{path} is damaged: {error}.") from error


def _absolute(text: str) -> str:
    """Return FILE or NAME=FILE with the file's whole path."""
    name, equals, file = text.partition("=")
    named = bool(equals) and name.isidentifier()
    return f"{name}={Path(file).resolve()}" if named else str(Path(text).resolve())
