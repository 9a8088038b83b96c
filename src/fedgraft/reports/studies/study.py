"""A study: many experiments on equal footing, resumable, the paper's numbers beside ours.

A study is a TOML file: methods (recipes and overrides of them) and panels (which methods on which data, models,
partitions and numbers of clients). Every cell is run with the same seeds, so that comparisons are paired. A finished
cell is kept in the study's folder, with its settings; a study that is started again runs only what is missing or was
done with other settings, of another recipe or another study file.
"""

import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

from fedgraft.contracts import Task
from fedgraft.errors import InputError
from fedgraft.experiment import experiment as experiments
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import override, read_recipe, renamed
from fedgraft.experiment.recipes.sections import Section
from fedgraft.experiment.recipes.upgrading import upgraded_content
from fedgraft.experiment.running import baselines
from fedgraft.experiment.running.runner import execute_on
from fedgraft.reports.studies.cluster import on_cluster
from fedgraft.reports.studies.each_alone import each_alone
from fedgraft.reports.studies.processes import Call, Write, in_processes
from fedgraft.reports.studies.scoring_cost import SCORING, scoring_bytes
from fedgraft.reports.studies.selection_time import timed
from fedgraft.reports.studies.stored_results import CELLS, YARDSTICKS, StoredResults, write_result
from fedgraft.reports.studies.study_files import read_file

AFTER: Final = "after_local_steps"
"""What of a summary tells of clients' models after local steps."""
ALONE: Final = "alone"
"""What of a method says that each client is a federation of its own."""


@dataclass(frozen=True)
class Split:
    """The data that paired experiments share, and how they are cut; "" and 0 leave it to the data."""

    data: str
    partition: str
    clients: int
    seed: int

    @property
    def key(self) -> str:
        """Its name but for the seed."""
        return "-".join(str(part) for part in (self.data, self.partition, self.clients) if part)


@dataclass(frozen=True)
class Cell:
    """One experiment of a study; `model` is "" where the task has a model of its own."""

    split: Split
    model: str
    method: str

    @property
    def key(self) -> str:
        """Its name, which is also its file's."""
        parts = (self.split.key, self.model, self.method, f"seed{self.split.seed}")
        return "-".join(part for part in parts if part)

    @property
    def model_changes(self) -> dict[str, str]:
        """Overrides that name its model."""
        return {"model.name": self.model} if self.model else {}


@dataclass(frozen=True)
class Study:
    """A study's definition, as its TOML file says it.

    Args:
        name: of the study.
        title: heading of its page.
        recipe: what every experiment starts from whose method and data name none of their own.
        reference: the method whose bytes the others' are measured by.
        also: another method whose best sets a target of its own, for a page of layout "targets"; "" for none.
        layout: of the page's tables: "errors", with bytes to a target, "accuracy", with settings side by side,
            "targets", with bytes and operations to an accuracy, "paired", with differences and their intervals,
            "time", with simulated seconds to scores, or "selectors", with what choosing takes.
        targets: the scores that a page of layout "time" tells the seconds to.
        folder: of all data, within the root, or {data: its folder}; where there is none, a folder of the data's name.
        common: overrides of every experiment.
        sets: {data: {"recipe": ..., "changes": overrides of every experiment on it}}; both may be left out.
        methods: {method: {"label": ..., "recipe": ..., "changes": {"section.key": value}, "alone": whether each client
            is a federation of its own}}.
        folds: of cross-validation; seed s has fold (s - 1) modulo so many as its test set, of data that have folds.
            0 = every seed the first.
        tuned: {"seeds": [...], "sets": [...]} on which options were chosen; both may be left out.
        target: {"reference": a method, "below": points below its best, or "share": of that}, of the same
            seed; the reference of the study where none is named. {} = where the reference ends, of layout "paired".
        controls: methods that learn nothing, each of which all others are held against; of layouts "paired", "errors",
            "selectors".
        cuts: {partition: overrides} for partitions that take more than their name.
        panels: tables of the page: title, data, models, partitions, clients, methods, yardsticks, paper's numbers, and
            the first of its paired seeds, usually 1; a later one leaves those out that options were chosen on.
    """

    name: str
    title: str
    recipe: str
    reference: str
    common: Mapping[str, Any]
    methods: Mapping[str, Mapping[str, Any]]
    panels: tuple[Mapping[str, Any], ...]
    also: str = ""
    layout: str = "errors"
    targets: tuple[float, ...] = ()
    folder: str | Mapping[str, str] = ""
    cuts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    folds: int = 0
    tuned: Mapping[str, Any] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)
    controls: tuple[str, ...] = ()

    def root(self, data_root: Path, data: str) -> Path | None:
        """The folder of a data set; None for one that is generated."""
        read = _has(data, "root")
        known = self.folder if isinstance(self.folder, str) else self.folder.get(data)
        return data_root / (known or data) if read else None

    @property
    def read(self) -> list[str]:
        """The data sets that are read from a folder of their own."""
        names = dict.fromkeys(data for panel in self.panels for data in panel["data"])
        return [data for data in names if self.root(Path(), data) is not None]

    def common_to(self, split: Split) -> dict[str, Any]:
        """Overrides of every experiment on a split; where its data are is left to `root`."""
        cut: dict[str, Any] = {"data.clients": split.clients}
        if split.partition:
            cut |= self.cuts.get(split.partition, {"data.partition": split.partition})
        if self.folds and _has(split.data, "fold"):
            cut["data.fold"] = (split.seed - 1) % self.folds
        return {
            "data.name": split.data,
            **{name: value for name, value in cut.items() if value or value is False},
            "seed": split.seed,
            "yardsticks": [],
            **self.common,
            **self.sets.get(split.data, {}).get("changes", {}),
        }

    def recipe_for(self, data: str, method: str = "") -> str:
        """The recipe of a method on a data set; that of the data alone without a method."""
        of_data = self.sets.get(data, {}).get("recipe", self.recipe)
        return str(self.methods[method].get("recipe", of_data) if method else of_data)

    def experiment(self, data: str, method: str, changes: Mapping[str, Any]) -> Experiment:
        """A method's experiment on a data set, with changes that its own are made on top of."""
        own = self.methods[method].get("changes", {})
        return experiments.load(self.recipe_for(data, method), {**changes, **own})

    def settings(self, cell: Cell) -> Section:
        """Return the settings of a cell by section; other settings are another experiment."""
        own = self.methods[cell.method].get("changes", {})
        content = override(
            read_recipe(self.recipe_for(cell.split.data, cell.method))[1],
            {**self.common_to(cell.split), **cell.model_changes, **own},
        )
        found = {name: value for name, value in content.items() if name not in ("description", "alternatives")}
        return {**found, ALONE: True} if self.methods[cell.method].get(ALONE) else found

    def cells(self, seeds: int) -> list[Cell]:
        """Every experiment once, panel by panel."""
        cells: dict[Cell, None] = {}
        for panel in self.panels:
            cells.update(dict.fromkeys(panel_cells(panel, seeds)))
        return list(cells)

    def yardsticks(self, split: Split) -> tuple[str, ...]:
        """The yardsticks asked for on a split, by any panel."""
        names = (
            name
            for panel in self.panels
            if split.data in panel["data"]
            and split.partition in panel["partitions"]
            and split.clients in panel["clients"]
            for name in panel["yardsticks"]
        )
        return tuple(dict.fromkeys(names))


def _has(data: str, option: str) -> bool:
    """Return whether a data set has an option."""
    return any(each.name == option for each in fields(discovery.find("data", data)))


def panel_cells(panel: Mapping[str, Any], seeds: int) -> Iterator[Cell]:
    """The cells of one panel, with so many seeds from its first on."""
    first = panel.get("first_seed", 1)
    axes = panel["data"], panel["partitions"], panel["clients"], range(first, first + seeds), panel["runs"]
    for data, partition, clients, seed, (model, method) in product(*axes):
        yield Cell(Split(data, partition, clients, seed), model, method)


def settings(study: Study) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(heading, name, the panel for it alone) of every data set, partition and number of clients of every panel."""
    for panel in study.panels:
        for data, partition, clients in product(panel["data"], panel["partitions"], panel["clients"]):
            one = {**panel, "data": [data], "partitions": [partition], "clients": [clients]}
            yield panel["title"], next(panel_cells(one, 1)).split.key, one


def load(name: str) -> Study:
    """A study by name, or by the path of its TOML file. Raises `InputError` with the nearest right name."""
    name, content = read_file(name)
    lists = {key: tuple(content.get(key, ())) for key in ("targets", "controls")}
    return Study(**{"name": name, "common": {}, **content, **lists})


def run(
    study: Study,
    data_root: Path,
    folder: Path,
    seeds: int,
    jobs: int,
    say: Callable[[str], None],
    match: str = "*",
    on: str = "",
) -> None:
    """Run every cell, and score every yardstick, that is not done yet.

    Args:
        study: what to run.
        data_root: the folder that holds the data sets' folders.
        folder: where finished cells and yardsticks are kept.
        seeds: how many paired seeds each panel has.
        jobs: processes at a time, one thread each; a cluster has as many as it has CPUs.
        say: hears a line per finished split.
        match: which cells to run, by name, as a shell matches names of files. Raises `InputError` if it fits none.
        on: "" for processes here; "ray" or "ray:ADDRESS" for a Ray cluster, whose nodes have the data in `data_root`.
    """
    every = study.cells(seeds)
    cells = [cell for cell in every if fnmatchcase(cell.key, match)]
    if not cells:
        raise InputError(f"--match {match!r} fits none of {len(every)} cells, such as {every[0].key}.")
    stored = StoredResults(folder)
    todo = [cell for cell in cells if _result(study, stored, cell) is None]
    stale = [cell for cell in todo if stored.read(_cell_name(cell)) is not None]
    unfinished = set(todo)
    groups: dict[Split, list[Cell]] = {}
    for cell in cells:
        if cell in unfinished or set(study.yardsticks(cell.split)) - _kept(stored, cell.split).keys():
            groups.setdefault(cell.split, []).extend([cell] if cell in unfinished else [])
    say(f"{len(cells) - len(todo)} of {len(cells)} cells are done; {len(todo)} to run with {jobs} jobs.")
    if stale:
        say(f"{len(stale)} of these were done with other settings than they have now, such as {stale[0].key}.")
    for data in dict.fromkeys(split.data for split in groups if not on):
        _checked_root(study, data_root, data)
    for kind in (CELLS, YARDSTICKS):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    left, write = len(todo), partial(write_result, folder)
    calls = [call for split, cells in groups.items() for call in _calls(study, split, cells, data_root, stored, on)]
    for call in on_cluster(calls, on, jobs, write) if on else in_processes(calls, jobs, write):
        left -= call.cells
        say(f"{call.name}; {left} cells left")


def results(study: Study, folder: Path, seeds: int) -> dict[Cell, dict[str, Any]]:
    """{cell: its result, with the yardsticks of its split} of the cells that are done."""
    stored = StoredResults(folder)
    by_cell = {cell: _result(study, stored, cell) for cell in study.cells(seeds)}
    return {
        cell: {**result, "yardsticks": _kept(stored, cell.split)}
        for cell, result in by_cell.items()
        if result is not None
    }


def _calls(
    study: Study, split: Split, cells: list[Cell], data_root: Path, stored: StoredResults, on: str
) -> list[Call]:
    """All that is to do on a split: in one process, which prepares the data once, or spread over a cluster."""
    kept, name = _kept(stored, split), f"{split.key}, seed {split.seed}"
    missing = tuple(yardstick for yardstick in study.yardsticks(split) if yardstick not in kept)
    if not on:
        return [Call(partial(_run_split, study, split, cells, missing, kept, data_root), name, len(cells))]
    calls = [Call(partial(_run_split, study, split, [cell], (), kept, data_root), cell.key, 1) for cell in cells]
    if missing:
        calls.append(Call(partial(_run_split, study, split, [], missing, kept, data_root), f"yardsticks of {name}", 0))
    return calls


def _run_split(
    study: Study,
    split: Split,
    cells: list[Cell],
    yardsticks: tuple[str, ...],
    kept: Mapping[str, Any],
    data_root: Path,
    write: Write,
) -> None:
    """Cells and yardsticks of one split, one after another on the same shards and prepared data."""
    root = _checked_root(study, data_root, split.data)
    common = {**study.common_to(split), "runtime.workers": 0, **({"data.root": str(root)} if root else {})}
    made = experiments.load(study.recipe_for(split.data), common)
    shards = made.shards()
    base = made.fitted(shards)
    by_task: dict[Task[Any, Any], list[tuple[Cell, Experiment]]] = {}
    for cell in cells:
        experiment = study.experiment(split.data, cell.method, {**common, **cell.model_changes}).fitted(shards)
        by_task.setdefault(experiment.plan.task, []).append((cell, experiment))
    for alike in by_task.values():
        prepared: dict[int, Any] = {}
        for cell, experiment in alike:
            alone = study.methods[cell.method].get(ALONE)
            result = each_alone(experiment, shards) if alone else _federated(experiment, shards, prepared)
            write(_cell_name(cell), {**result, "settings": study.settings(cell)})
    known = dict(kept)
    for name in yardsticks:
        known |= baselines.scores(base, shards, [name])
        write(_yardsticks_name(split), known)


def _federated(experiment: Experiment, shards: Any, prepared: dict[int, Any]) -> dict[str, Any]:
    """Return what is kept of an experiment that was run."""
    choosing: list[float] = []
    summary = execute_on(timed(experiment, choosing), shards, prepared)
    scoring = scoring_bytes(experiment, summary)
    return {**_compact(summary), SCORING: scoring, "selection_seconds": round(sum(choosing), 3)}


def _checked_root(study: Study, data_root: Path, data: str) -> Path | None:
    """The folder of a data set; None for one that is generated. Raises `InputError` where it is not there."""
    root = study.root(data_root, data)
    if root is not None and not root.is_dir():
        raise InputError(f"--data {data_root} holds no folder {root.name!r} on {platform.node() or 'this machine'}.")
    return root


def _result(study: Study, stored: StoredResults, cell: Cell) -> dict[str, Any] | None:
    """Return a cell's result if it is one of its present settings; a result without settings counts as one."""
    result, now = stored.read(_cell_name(cell)), study.settings(cell)
    return result if result is not None and upgraded_content(renamed(result.get("settings", now))) == now else None


def _compact(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page needs of a summary."""
    kept = ["metric", "better", "rounds", "validation", "test", "test_at_best_validation", "test_plain_mean"]
    kept += ["test_per_client", "measures", "bytes", "flops", "selections", "simulated_seconds", "digest"]
    kept += ["raw_data_bytes"]
    curve = [
        [*point[:2], *(None if x is None else round(x, 5) for x in point[3:5]), point[5], round(point[6], 3)]
        for point in summary["curve"]
    ]
    failures = {name: count for name, count in summary["failures"].items() if count}
    kept_too: dict[str, Any] = {"failures": failures} if failures else {}
    seconds = round(summary["seconds"], 1)
    if after := summary.get(AFTER):
        kept_too[AFTER] = {name: after[name] for name in ("round", "validation", "test", "test_per_client")}
    return {**{name: summary[name] for name in kept}, **kept_too, "seconds": seconds, "curve": curve}


def _kept(stored: StoredResults, split: Split) -> dict[str, dict[str, float]]:
    """The yardsticks of a split that are done."""
    return stored.read(_yardsticks_name(split)) or {}


def _cell_name(cell: Cell) -> str:
    return f"{CELLS}/{cell.key}.json"


def _yardsticks_name(split: Split) -> str:
    return f"{YARDSTICKS}/{split.key}-seed{split.seed}.json"
