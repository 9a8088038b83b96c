"""A finished run, loaded: its model, its clients' data and what they remember."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch

from fedgraft import wire
from fedgraft.contracts.abilities.predicting import PredictingTask
from fedgraft.contracts.data import ClientTables, names_of
from fedgraft.engine.client.client_rows import common_in, shared_in
from fedgraft.engine.client.ensemble import ensemble_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.rounds.averaging import scored_model
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import InputError, WireError, unknown
from fedgraft.experiment.carried_over import inherited
from fedgraft.experiment.storage import data_now
from fedgraft.experiment.storage.disk import read_model
from fedgraft.experiment.storage.folder_check import CHECKPOINT, ENVIRONMENT, MODEL, RUN, STATE, SUMMARY
from fedgraft.experiment.storage.outside_classes import stored_experiment
from fedgraft.experiment.storage.provenance import check_options
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.experiment.storage.stored_state import check_models
from fedgraft.wire.layouts import Arrays, Tree

LOG = logging.getLogger("fedgraft.data")
SHOWN = 10
"""Most names of clients that an error lists."""
OF_MODEL = ("best", "private", "sharing")
"""Parts of a client's memory that are of its model, whatever its data are."""
KEPT = 32
"""Most clients whose models are kept from one prediction to the next."""


class FinishedRun:
    """A finished run with its clients' data and models, on the CPU: it need not be used where it was trained.

    Where the clients are nodes of a federation, their data and what they remember are not here.

    Args:
        run_folder: the run's folder, opened.
        data_root: where the data are now, see `data_now.moved`; None = where `experiment.toml` says.
        allow_changed_data: whether they may be others than the run began with; a note then says which are.
    """

    def __init__(self, run_folder: RunFolder, data_root: Path | None = None, allow_changed_data: bool = False) -> None:
        self.run_folder = run_folder
        self._where, self._allow_changed = str(run_folder.folder / "experiment.toml"), allow_changed_data
        self.experiment = stored_experiment(run_folder)
        check_options(run_folder.origin(), self.experiment.recipe.sections, self._where)
        if data_root is not None:
            self.experiment = data_now.moved(self.experiment, data_root)
        self.plan = replace(self.experiment.plan, device="cpu")
        self.models = read_models(self.run_folder, self.plan)

    @property
    def task(self) -> PredictingTask[Any, Any]:
        """The task that the model is for. Raises `InputError` for one that answers no questions."""
        task = self.plan.task.ability(PredictingTask)
        if task is None:
            raise InputError(f"Task {self.experiment.task_name!r} answers no questions.")
        return task

    @property
    def own_data(self) -> ClientTables[Any] | None:
        """What reads one client's own tables as the run's data are read; None where nothing does."""
        data = self.experiment.data
        return data if isinstance(data, ClientTables) and data.own_tables else None

    def load(self) -> None:
        """Load now what else is loaded when it is first asked for: data, and what clients remember."""
        _ = self.shards, self.memory(0)

    @cached_property
    def data(self) -> data_now.DataNow:
        """The run's data, loaded again. Raises `InputError` where they have changed and may not, or are at nodes."""
        self._check_here()
        now = data_now.load(self.experiment, self.run_folder.origin(), self._where, self._allow_changed)
        self.experiment.fitted(now.shards)  # raises where classes are others
        return now

    @property
    def shards(self) -> Sequence[Any]:
        """One per client, as `data` has them."""
        return self.data.shards

    @property
    def names(self) -> list[str]:
        """Names of the clients."""
        return list(names_of(self.shards))

    def memory(self, client: int) -> Mapping[str, Any]:
        """Return what a client remembered at the end; nothing of single rows where its data have changed since."""
        place = self.data.places[client]
        if place is None:
            return {**self.newcomer_memory, "shared": self._shared_now.get(client, {})}
        memory, set_up = self._memory(place)
        remembered: Any = wire.unpack(memory) if memory else {}
        if client not in self.data.changed:
            return {**remembered, "shared": shared_in(self.plan, set_up)}
        kept = {name: remembered[name] for name in OF_MODEL if name in remembered}
        return {
            **kept,
            **self._smoothed_by(remembered.get("smoothing", {})),
            "shared": self._shared_now.get(client, {}),
        }

    @cached_property
    def _shared_now(self) -> Mapping[int, Arrays]:
        """{client: what it is sent before training}, of the data as they are now."""
        publishing = self.plan.publishing
        if publishing is None:
            return {}
        return publishing.combine({client: publishing.statistics(shard) for client, shard in enumerate(self.shards)})

    @property
    def newcomer_memory(self) -> Mapping[str, Any]:
        """Return what a client that was not there may know of the run: what all were told, how answers are smoothed."""
        known = self._smoothed_by(self._end[0].smoothed) if self.plan.smoothing else {}
        if self.plan.publishing is None:
            return known
        set_up = next((message for client, message in self._end[1].items() if client < 0 and message), b"")
        return {**known, "shared": common_in(self.plan, set_up)}

    @property
    def own(self) -> dict[str, Mapping[str, Tree]]:
        """{name of a client of the run: what of its memory it hands on to a run that begins with this one's model}.

        The data are not loaded. Nothing of clients that are nodes of a federation.
        """
        folder = self.run_folder.folder
        if not self.plan.personal or self._at_nodes:
            return {}
        memories = self._end[1]
        names = list(self.run_folder.origin()["clients"])
        if len(names) != len(self._end[0].profiles) and (folder / SUMMARY).is_file():
            names = list(self.run_folder.summary()["test_per_client"])
        unpacked: Any = {name: wire.unpack(memories[k]) for k, name in enumerate(names) if memories.get(k)}
        return {name: inherited(self.plan, memory) for name, memory in unpacked.items()}

    @staticmethod
    def _smoothed_by(known: Mapping[str, Any]) -> Mapping[str, Any]:
        if "choice" not in known:
            return {}
        layer = {"layer": known["layer"]} if "layer" in known else {}
        return {"smoothing": {"choice": known["choice"], "rows": [], "known": [], **layer}}

    def prepared(self, client: int) -> Any:
        """Return a client's data as it trained on them, with what it remembers of nodes' states."""
        remembered = self.memory(client)
        data = self.plan.task.prepare(self.shards[client], remembered.get("shared", {}))
        return self.plan.halo.opened(data, remembered.get("states")) if self.plan.halo else data

    def number(self, name: str) -> int:
        """Return the index of a client. Raises `InputError` for a name that nobody has."""
        if name not in self.names:
            raise unknown("client", name, self.names)
        return self.names.index(name)

    def client_model(self, client: int, shared_alone: bool = False) -> torch.nn.Module:
        """Return a client's model; `shared_alone` leaves out what it adds to the shared parameters.

        Who has parameters of its own and keeps the last ones (`evaluation.keep`) has the last shared ones with them.
        """
        place = self.data.places[client]
        if place is None:
            shared = self.newcomers_model(f"client {self.names[client]!r}")
            return client_model(self.plan, self.shards[client], {}, shared)
        return client_model(self.plan, self.shards[client], self.memory(client), self._shared(place), shared_alone)

    def newcomers_model(self, who: str) -> Arrays:
        """Return the shared parameters for a client that was not there; `who` that is, for errors.

        Raises `InputError` where a part of the model is each client's own.
        """
        groups = {name.partition("/")[0] for name in self.models if "/" in name}
        if groups:
            raise InputError(
                f"This run ended with {len(groups)} models, one per group of its clients; {who} fits none."
            )
        own = [name for name in self.plan.build_model().initial if not self.plan.travels(name)]
        if own:
            sharing = self.experiment.recipe.sections["sharing"]["name"]
            raise InputError(
                f"Under sharing {sharing!r} each client trained parameters of its own, such as {own[0]!r}; {who} is of "
                "one that was not there and has none."
            )
        return self.models

    @cached_property
    def answering_model(self) -> Callable[[int], torch.nn.Module]:
        """What returns a client's model as it is kept to answer with, which nobody may change."""
        return lru_cache(KEPT)(self.client_model)

    def _memory(self, client: int) -> tuple[bytes, bytes]:
        """Return what a client of the run remembered, and the set-up message that it was sent; b"" for none."""
        self._check_here()
        return self._end[1].get(client, b""), self._end[1].get(~client, b"")

    def _shared(self, client: int) -> Arrays:
        """Return the shared parameters that a client of the run answers with."""
        return shared_model(self.plan, self._end[0], self.models, client)

    def _check_here(self) -> None:
        """Raise `InputError` where the clients are nodes of a federation."""
        folder = self.run_folder.folder
        if run := self._at_nodes:
            raise InputError(
                f"{folder}: data and what clients remember are at the nodes of the federation; predict there: "
                f"fedgraft predict NODEDIR/runs/{run}, where NODEDIR is a node's folder."
            )

    @property
    def _at_nodes(self) -> str | None:
        """The run's name at the nodes of a federation that hold its clients; None where they were here."""
        return self.run_folder.environment().get(RUN) if (self.run_folder.folder / ENVIRONMENT).is_file() else None

    @cached_property
    def _end(self) -> tuple[RunState, dict[int, bytes]]:
        stored, folder = self.run_folder.load(), self.run_folder.folder
        if stored is None:
            raise InputError(f"{folder} has no checkpoint; finish the run with 'fedgraft resume {folder}'.")
        check_models(stored[0], self.plan, str(folder / CHECKPOINT / STATE))
        return stored


def load_model(run_folder: RunFolder) -> torch.nn.Module:
    """Return the model that all clients share, as it was best on validation, in evaluation mode, on the CPU.

    Raises `InputError` where clients ended with models of their own: by groups, or because some parameters or all stay
    with each of them. `FinishedRun.client_model` has what such a client answers with.
    """
    stored = stored_experiment(run_folder)
    plan = replace(stored.plan, device="cpu")
    models = read_models(run_folder, plan)
    if plan.personal or any("/" in name for name in models):
        names = data_now.listed(list(run_folder.summary()["test_per_client"]), SHOWN)
        sharing = stored.recipe.sections["sharing"]["name"]
        raise InputError(
            f"{run_folder.folder}: there is no one model: under sharing {sharing!r} each "
            f"client ended with its own, in parts or in whole; use run.client_model(NAME), with one of {names}."
        )
    flat = plan.build_model()
    flat.load(models)
    return flat.module.eval()


def client_model(
    plan: Plan, shard: Any, memory: Mapping[str, Any], shared: Arrays, shared_alone: bool = False
) -> torch.nn.Module:
    """Return the model that a client ended up with: its own best, or the shared one with its private parts."""
    variant = None
    if plan.variants and any(map(plan.variants.personal, plan.build_model().initial)):
        variant = plan.variants.variant(plan.task.prepare(shard, memory.get("shared", {})))
    flat = plan.build_model(variant)
    received = {name: shared[name] for name in plan.first if name in shared}
    best, remembered = memory.get("best"), memory.get("sharing")
    if best is not None:
        flat.load(best["arrays"])
        others = best["others"]
    else:
        flat.load({**memory.get("private", {}), **plan.personalise(received, remembered)})
        others = plan.ensemble(received, remembered)
    if shared_alone:
        flat.load(received)
        others = []
    return ensemble_of(plan.task, flat, others)


def shared_model(plan: Plan, state: RunState, models: Arrays, client: int) -> Arrays:
    """Return the shared parameters that a client answers with, of the best by validation of all groups."""
    group = plan.sharing.group(state.sharing, client)
    shared = of_group(models, str(group))
    if not shared or (plan.personal and not plan.keep_best):  # a group may be younger than the best models
        shared = scored_model(plan, state.sharing, state.averages, group)
    return shared


def of_group(models: Arrays, group: str) -> Arrays:
    """Return the model of one group, from all groups' arrays."""
    if any("/" in name for name in models):
        return {name.partition("/")[2]: array for name, array in models.items() if name.startswith(f"{group}/")}
    return models


def read_models(run_folder: RunFolder, plan: Plan) -> Arrays:
    """Return the run's model, or those of all groups of clients; of a run that has not finished the best so far.

    Raises `InputError` where there is none, or it is not of this plan.
    """
    path, stopped = run_folder.folder / MODEL, None
    if not (run_folder.folder / SUMMARY).is_file():
        stopped = run_folder.load()
    if stopped is not None:
        state = stopped[0]
        LOG.warning(
            f"{run_folder.folder} has not finished: its model is the best of {state.round} rounds, from round "
            f"{state.best['round']}; 'fedgraft resume {run_folder.folder}' goes on."
        )
        arrays, path = state.best_model, run_folder.folder / CHECKPOINT / STATE
    elif path.is_file():
        arrays = read_model(path)
    else:
        raise InputError(f"{path} is missing; finish the run with 'fedgraft resume {path.parent}'.")
    for group in sorted({name.partition("/")[0] for name in arrays if "/" in name}) or [""]:
        try:
            wire.check(of_group(arrays, group), plan.model_layout)
        except WireError as error:
            raise InputError(f"{path} is not the model of this run's experiment.toml: {error}") from error
    return arrays
