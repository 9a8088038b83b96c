"""The experiments that advice is made of, and the jobs that score them."""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Final

from fedgraft.contracts.option_groups import settable
from fedgraft.errors import InputError, nearest, require
from fedgraft.experiment.job import Job, build
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.recipes.recipe_files import recipes
from fedgraft.experiment.recipes.sections import STAGES, Section
from fedgraft.experiment.recipes.task_sections import task_of
from fedgraft.experiment.recipes.units import parse_bytes
from fedgraft.experiment.storage.provenance import digest_of
from fedgraft.tables import table_files

LOCAL = "model alone"
"""In place of a baseline's name: a recipe's own model, trained by each client alone."""
UNUSED = ("description", "runtime", "checkpoint")
"""Sections that no score depends on."""
TRAINED = ("data", "task", *STAGES, "sampler", "sharing", "training", "rounds", "evaluation")
"""Sections that a model which clients train alone depends on."""
FORMAT = 2
"""Of what a finished cell holds; those of another are run again."""
LEAST_SEEDS = 2
"""Fewer say nothing of how much scores vary."""


@dataclass(frozen=True)
class Candidate:
    """A recipe of ours to try: its name in the table, why it is on the list, and overrides of it.

    `marked` is what a user must agree to before it is tried; "" for nothing. `fixed` are overrides that hold whatever
    the user says, without which it were another recipe.
    """

    name: str
    recipe: str
    why: str
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    marked: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Alone:
    """A baseline that every client computes by itself.

    Args:
        name: of the baseline.
        figure: of a recipe that it is held against: "validation", its score; or "own", where clients of the recipe,
            too, choose by their own validation split, as the baseline's do, which flatters both.
    """

    name: str
    figure: str


@dataclass(frozen=True)
class Choice:
    """The list of a task.

    Args:
        recipes: to try, the most useful first; one that is not among ours is passed over.
        alone: baselines of clients alone, beside the recipe's own model trained alone.
        central: cheap baselines that need all data in one place, the cheapest first.
    """

    recipes: tuple[Candidate, ...]
    alone: tuple[Alone, ...] = ()
    central: tuple[str, ...] = ()


def _listed(shared: Mapping[str, Any], recipes: Sequence[Mapping[str, Any]], **more: Any) -> Choice:
    """Return a task's list, as the file has it; `shared` are the overrides that a candidate is `like`."""
    made = []
    for each in recipes:
        like, changes = shared if "like" in each else {}, each.get("changes", {})
        named = {key: value for key, value in each.items() if key != "like"}
        made.append(Candidate(**{"recipe": each["name"], **named, "changes": {**like, **changes}}))
    alone = tuple(Alone(*pair) for pair in more.get("alone", {}).items())
    return Choice(tuple(made), alone, tuple(more.get("central", ())))


def _read() -> dict[str, Choice]:
    """Return {task: its list} of `candidates.toml`, which lies beside this file."""
    text = resources.files("fedgraft.reports.advising").joinpath("candidates.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    shared = content.pop("as_others_do")
    return {task: _listed(shared, **listed) for task, listed in content.items()}


CHOICES: Final = _read()
"""{task: its list}."""


def choice_of(task: str, agreed: bool) -> Choice:
    """Return a task's list, with marked recipes only if the user `agreed`. Raises `InputError` for other tasks."""
    if task not in CHOICES:
        raise InputError(f"There is no list of recipes for task {task!r}; there is one for {', '.join(CHOICES)}.")
    choice, known = CHOICES[task], recipes()
    tried = tuple(each for each in choice.recipes if each.recipe in known and (agreed or not each.marked))
    return Choice(tried, choice.alone, choice.central)


TOGETHER, ALONE, ONE_PLACE = "together", "alone", "one place"
"""Kinds of rows: federated, by each client alone, with all data in one place."""


@dataclass(frozen=True)
class Trial:
    """A score to find, with one seed of data and training, for the row of this kind and name.

    `baseline` is what is computed, "" for a federated run, and `candidate` whose experiment it is or whose model is
    trained.
    """

    kind: str
    name: str
    seed: int
    baseline: str
    candidate: Candidate

    @property
    def row(self) -> tuple[str, str]:
        """Kind and name."""
        return self.kind, self.name


@dataclass(frozen=True)
class Question:
    """What the user asks.

    Args:
        data: the section [data].
        changes: other overrides of every experiment.
        budget: bytes that a run may send; 0 = no limit.
        seeds: paired seeds, at least 2.
        agreed: whether recipes are tried that the user must agree to.
    """

    data: Section
    changes: Mapping[str, Any]
    budget: int
    seeds: tuple[int, ...]
    agreed: bool = False
    _loaded: dict[int, Sequence[Any]] = field(default_factory=dict, repr=False)
    _digests: dict[int, str] = field(default_factory=dict, repr=False)
    _clients: dict[int, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, data: str, budget: str, overrides: Mapping[str, Any], seeds: int, agreed: bool) -> "Question":
        """Return the question that a command line asks. Raises `InputError` for whatever is wrong with it."""
        require(seeds >= LEAST_SEEDS, "--seeds", f"at least {LEAST_SEEDS}", seeds)
        options = {key.removeprefix("data."): value for key, value in overrides.items() if key.startswith("data.")}
        rest = {key: value for key, value in overrides.items() if not key.startswith("data.")}
        first, limit = rest.pop("seed", 1), rest.pop("budget.bytes", 0)
        require(isinstance(first, int) and first >= 0, "seed", "a whole number >= 0", first)
        size = parse_bytes(budget or limit, "BUDGET")
        return cls(section_of(data, options), rest, size, tuple(range(first, first + seeds)), agreed)

    @cached_property
    def task(self) -> str:
        """Name of the task that the data are for, or of another that they can be made for and the user names."""
        named = {"name": self.changes["task.name"]} if "task.name" in self.changes else {}
        return task_of(Recipe("", {"data": self.data, "task": named}))[0]

    @cached_property
    def choice(self) -> Choice:
        """The task's list; of recipes those that these data and overrides fit.

        Raises `InputError` where none does.
        """
        listed, fitting, errors = choice_of(self.task, self.agreed), [], []
        for candidate in listed.recipes:
            try:
                self.experiment(candidate, self.seeds[0])
                fitting.append(candidate)
            except InputError as error:
                errors.append(error)
        if not fitting:
            raise errors[0]
        return Choice(tuple(fitting), listed.alone, listed.central)

    def experiment(self, candidate: Candidate, seed: int, baselines: bool = False) -> Job:
        """Return a candidate's experiment on the data, within the budget; `baselines`: whether with its own.

        A recipe that chooses more clients than there are chooses all of them, unless the user says how many.
        """
        recipe = Recipe.read(candidate.recipe).changed({"data.name": self.data["name"]})
        recipe = recipe.with_sections({"data": dict(self.data)})
        changes = {**candidate.changes, **self.changes, **candidate.fixed, "seed": seed, "budget.bytes": self.budget}
        if not baselines:
            changes["baselines"] = []
        recipe = recipe.changed(changes)
        selector, clients = recipe.sections.get("selector"), self._clients.get(seed)
        if clients and isinstance(selector, dict) and "selector.clients" not in self.changes:
            fewer = {key: min(value, clients) if key == "clients" else value for key, value in selector.items()}
            recipe = recipe.with_sections({"selector": fewer})
        return build(recipe)

    def shards(self, seed: int) -> Sequence[Any]:
        """Return the clients' data; those of one seed are kept. Raises `InputError` for fewer than two clients."""
        if seed not in self._loaded:
            self._loaded.clear()
            shards = self.experiment(self.choice.recipes[0], seed).shards()
            if len(shards) < LEAST_SEEDS:
                raise InputError(
                    "These data are of one client, so there is nothing to federate: say how many hold them with "
                    "data.clients=N, or name the client of each row in a column."
                )
            self._loaded[seed], self._clients[seed] = shards, len(shards)
            self._digests[seed] = digest_of(shards)
        return self._loaded[seed]

    def settings(self, job: Trial) -> dict[str, Any]:
        """Return what a job's score depends on, as JSON has it."""
        if job.seed not in self._digests:
            self.shards(job.seed)
        used: dict[str, Any] = {
            "format": FORMAT,
            "baseline": job.baseline,
            "data": self._digests[job.seed],
            "seed": job.seed,
        }
        if job.baseline in ("", LOCAL):
            sections = self.experiment(job.candidate, job.seed).recipe.sections
            wanted = TRAINED if job.baseline else [name for name in sections if name not in UNUSED]
            used["sections"] = {name: sections[name] for name in wanted if name in sections}
        settings: dict[str, Any] = json.loads(json.dumps(used, default=str))
        return settings


def key_of(job: Trial, settings: Mapping[str, Any]) -> str:
    """Return a job's name as a file's: of other settings, another."""
    plain = "".join(letter if letter.isalnum() or letter == "_" else "-" for letter in job.name).replace("--", "-")
    code = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=4).hexdigest()
    return f"{job.kind.replace(' ', '-')}-{plain}-seed{job.seed}-{code}"


@dataclass(frozen=True)
class Shape:
    """A data set that reads a user's own tables.

    Args:
        data: its name.
        table: the option that takes the main table.
        roles: options that name columns which that table must have.
        beside: options that take further tables.
        named: overrides where a column names each row's client, for data sets that do not look for it.
    """

    data: str
    table: str
    roles: tuple[str, ...]
    beside: tuple[str, ...] = ()
    named: Mapping[str, Any] | None = None

    def columns(self, options: Mapping[str, Any]) -> dict[str, str]:
        """Return {role: column}, as options say or by default; the client's too; none for a role that is not read."""
        usual = {name: each.default for name, each in settable(discovery.find("data", self.data)).items()}
        columns = {role: str(options.get(role, usual[role])) for role in (*self.roles, "client")}
        return {role: column for role, column in columns.items() if column}


SHAPES = (
    Shape("table", "ratings", ("user", "item", "rating"), named={"partition": "given"}),
    Shape("graphs", "graphs", ("graph", "label"), ("nodes", "edges")),
    Shape("nodes", "nodes", ("node", "label"), ("edges",)),
    Shape("interactions", "interactions", ("user", "item"), named={"partition": "given"}),
)
"""The first that fits a file's columns is taken."""


def section_of(data: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section [data] for what the user named.

    Args:
        data: the name of a data set, or the path of a CSV or Parquet file, or of a folder with a file for each client.
        options: what else the user said of the data; a "name" says which data set reads a file.

    Raises `InputError` for what is neither, and for a file whose columns no data set reads.
    """
    path, known = Path(data), discovery.names("data")
    if table_files.is_address(data):
        return _of_file(data, options)
    if data in known or (":" in data and not path.exists()):
        return {**options, "name": data}
    if not path.exists():
        if table_files.is_table(path):
            beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
            raise InputError(f"No file {data}.{nearest(path.name, beside)}")
        raise InputError(
            f"{data!r} is no file and no data set ('fedgraft list data').{nearest(data, known)} "
            f"A file ends in {table_files.ALLOWED}."
        )
    return _of_file(path, options)


def _of_file(path: str | Path, options: Mapping[str, Any]) -> dict[str, Any]:
    one = _one_file(path)
    known = {column for shape in SHAPES for column in shape.columns(options).values()}
    present = table_files.header(one, "data", _form(options), known)
    shapes = [shape for shape in SHAPES if options.get("name", shape.data) == shape.data]
    for shape in shapes:
        columns = shape.columns(options)
        if all(columns[role] in present for role in shape.roles if role in columns):
            return {**_named(shape, path, columns.get("client") in present, options), **_beside(shape, path, options)}
    allowed = "; ".join(
        f"{', '.join(columns[role] for role in shape.roles if role in columns)} ({shape.data})"
        for shape in shapes
        for columns in [shape.columns(options)]
    )
    raise InputError(
        f"{table_files.shown(one)} has the columns {', '.join(present)}. "
        f"Needed are: {allowed or 'those of another data set'}. "
        f"Columns of other names are told as data.{shapes[0].roles[0] if shapes else 'user'}=NAME."
    )


def _form(options: Mapping[str, Any]) -> table_files.TextForm:
    """Return what options say of how the main table is written."""
    said = {each.name: options[each.name] for each in fields(table_files.TextForm) if each.name in options}
    columns = said.get("columns", ())
    return table_files.TextForm(**{**said, "columns": () if isinstance(columns, Mapping) else tuple(columns)})


def _one_file(path: str | Path) -> str | Path:
    """Return the file whose columns are looked at: the first one of a folder."""
    if isinstance(path, str):
        return path
    if not path.is_dir():
        if not table_files.is_table(path):
            raise InputError(f"{path} must end in {table_files.ALLOWED}.")
        return path
    files = table_files.files_of(path)
    if not files:
        raise InputError(f"{path} is a folder without a file that ends in {table_files.ALLOWED}.")
    return files[0]


def _named(shape: Shape, path: str | Path, has_client: bool, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data set with the main table; who names no partition has clients as the data name them."""
    dealt = {"partition", "clients"} & options.keys()
    named = shape.named if shape.named and not dealt and (has_client or Path(path).is_dir()) else {}
    given = table_files.absolute(path) if isinstance(path, str) else str(path.resolve())
    return {**options, "name": shape.data, shape.table: given, **named}


def _beside(shape: Shape, given: str | Path, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the further tables: as said, or as files of their names next to the main one."""
    tables, path = {}, Path(given)
    for table in shape.beside:
        places = [path.parent / f"{table}{suffix}" for suffix in (path.suffix.lower(), *table_files.SUFFIXES)]
        near = next((place for place in places if place.is_file()), None)
        if table in options:
            tables[table] = str(Path(str(options[table])).resolve())
        elif near is not None:
            tables[table] = str(near.resolve())
        else:
            raise InputError(
                f"{path} has the columns of the data set {shape.data!r}, which needs a table of {table} too: give "
                f"data.{table}=FILE, or put {table}{path.suffix or table_files.SUFFIXES[0]} next to it."
            )
    return tables
