"""A study: many experiments on equal footing, resumable, the paper's numbers beside ours.

A study is a TOML file: methods (recipes and overrides of them) and panels (which methods on which data, models,
partitions and numbers of clients). Every cell is run with the same seeds, so that comparisons are paired. A finished
cell is kept in the study's folder, with its settings; a study that is started again runs only what is missing or was
done with other settings, of another recipe or another study file.
"""

import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

from filelock import FileLock

from fedgraft.contracts.option_groups import settable
from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.recipes.sections import Section
from fedgraft.experiment.storage import disk
from fedgraft.reports.studies.study_files import read_file

AFTER: Final = "after_local_steps"
"""What of a summary tells of clients' models after local steps."""
SCORING: Final = "scoring_bytes"
"""What of a stored result says how many more bytes its scores would have taken at clients; 0 where they were there."""
ALONE: Final = "alone"
"""What of a method says that each client is a federation of its own."""
CELLS: Final = "cells"
BASELINES: Final = "baselines"
PACKED: Final = "results.jsonl.xz"
Content: TypeAlias = dict[str, Any]


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

    @property
    def file(self) -> str:
        """Where its baselines are in a study's folder."""
        return f"{BASELINES}/{self.key}-seed{self.seed}.json"


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
    def file(self) -> str:
        """Where its result is in a study's folder."""
        return f"{CELLS}/{self.key}.json"

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
        panels: tables of the page: title, data, models, partitions, clients, methods, baselines, paper's numbers, and
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
            "baselines": [],
            **self.common,
            **self.sets.get(split.data, {}).get("changes", {}),
        }

    def recipe_for(self, data: str, method: str = "") -> str:
        """The recipe of a method on a data set; that of the data alone without a method."""
        of_data = self.sets.get(data, {}).get("recipe", self.recipe)
        return str(self.methods[method].get("recipe", of_data) if method else of_data)

    def experiment(self, data: str, method: str, changes: Mapping[str, Any]) -> Job:
        """A method's experiment on a data set, with changes that its own are made on top of."""
        own = self.methods[method].get("changes", {})
        return jobs.load(self.recipe_for(data, method), {**changes, **own})

    def settings(self, cell: Cell) -> Section:
        """Return the settings of a cell by section; other settings are another experiment."""
        own = self.methods[cell.method].get("changes", {})
        recipe = Recipe.read(self.recipe_for(cell.split.data, cell.method))
        changed = recipe.changed({**self.common_to(cell.split), **cell.model_changes, **own})
        found = {name: value for name, value in changed.sections.items() if name not in ("description", "alternatives")}
        return {**found, ALONE: True} if self.methods[cell.method].get(ALONE) else found

    def cells(self, seeds: int) -> list[Cell]:
        """Every experiment once, panel by panel."""
        cells: dict[Cell, None] = {}
        for panel in self.panels:
            cells.update(dict.fromkeys(panel_cells(panel, seeds)))
        return list(cells)

    def baselines(self, split: Split) -> tuple[str, ...]:
        """The baselines asked for on a split, by any panel."""
        names = (
            name
            for panel in self.panels
            if split.data in panel["data"]
            and split.partition in panel["partitions"]
            and split.clients in panel["clients"]
            for name in panel["baselines"]
        )
        return tuple(dict.fromkeys(names))


def _has(data: str, option: str) -> bool:
    """Return whether a data set has an option."""
    return option in settable(discovery.find("data", data))


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


class StoredResults:
    """The results in a study's folder, by the names of their files within it, such as "cells/NAME.json"."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / PACKED

    def read(self, name: str) -> Content | None:
        """Return a result, a JSON object; None where there is none. Raises `InputError` for a damaged file."""
        path = self.folder / name
        return disk.read_table(path) if path.is_file() else self._packed.get(name)

    def pack(self) -> int:
        """Move the files of results into the packed one, and return how many; a kill in the midst loses none.

        They are taken away only when the packed file that holds them is on disk. Of two at a time, one waits.
        """
        with FileLock(self.folder / ".lock"):
            paths = [path for kind in (CELLS, BASELINES) for path in (self.folder / kind).glob("*.json")]
            if paths:
                new = {path.relative_to(self.folder).as_posix(): disk.read_table(path) for path in paths}
                self.__dict__.pop("_packed", None)  # another process may have packed since it was read
                disk.replace(self.folder, {PACKED: packed({**self._packed, **new})})
                self.__dict__.pop("_packed", None)
            for path in paths:
                path.unlink()
        return len(paths)

    @cached_property
    def _packed(self) -> dict[str, Content]:
        return unpacked(self.path) if self.path.is_file() else {}


def write_result(folder: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write a result to a file of its own, in one stroke."""
    disk.swap(folder / name, json.dumps(content) + "\n")


def packed(results: Mapping[str, Content]) -> bytes:
    """Return {name: result} as compressed JSON lines, by name; every float is read again to the last bit."""
    lines = [json.dumps({"file": name, "content": results[name]}) + "\n" for name in sorted(results)]
    return lzma.compress("".join(lines).encode())


def unpacked(path: Path) -> dict[str, Content]:
    """Return what `packed` was given. Raises `InputError` for a file that is not what it wrote."""
    try:
        rows = [json.loads(line) for line in lzma.decompress(disk.read_bytes(path)).splitlines()]
        return {str(row["file"]): dict(row["content"]) for row in rows}
    except (lzma.LZMAError, ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{path} is damaged ({error}): restore it, or remove it, and its cells are run again."
        ) from error
