"""An experiment: one choice for each of the seven questions, plus data, budget and seed, as a recipe says it.

Everything is checked and every method built before any data are loaded. Unknown sections and keys are errors.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from fedgraft import wire
from fedgraft.contracts import (
    Aggregation,
    Halo,
    ProbingSelector,
    RuntimeOptions,
    Sampler,
    Selector,
    ServerOptimizer,
    Sharing,
    Task,
)
from fedgraft.contracts.abilities.tasks import FittedTask, derived_shards
from fedgraft.contracts.data import Data, FittedData, StayingData
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.options import Privacy
from fedgraft.engine.privacy.policy import Policy
from fedgraft.engine.privacy.secure_sum import SecureSum
from fedgraft.engine.server.clock.disconnections import Dropout
from fedgraft.engine.server.clock.simulated_clock import Clock
from fedgraft.engine.server.loop.stopping import HOME, Evaluation, Stopping
from fedgraft.engine.server.rounds.safeguards import Safeguards
from fedgraft.errors import InputError, require, unknown
from fedgraft.experiment.own_parameters import Own
from fedgraft.experiment.recipes import discovery, private, secured, suiting
from fedgraft.experiment.recipes.agreeing import agree
from fedgraft.experiment.recipes.codec_sections import build_codec, build_rows, resolved_codec, sealed_by_data
from fedgraft.experiment.recipes.data_tasks import task_of
from fedgraft.experiment.recipes.encoder_sections import without_layers
from fedgraft.experiment.recipes.findings import Also
from fedgraft.experiment.recipes.given_models import with_encoder
from fedgraft.experiment.recipes.option_names import named_as_in_recipes
from fedgraft.experiment.recipes.recipe import (
    DEFAULT_NAMES,
    EXTENDS,
    check_alternatives,
    contents,
    integer,
    is_usual,
    override,
    own_options,
    read_recipe,
    renamed,
    section_of,
)
from fedgraft.experiment.recipes.sections import (
    METHODS,
    SETTINGS,
    STAGES,
    VALUES,
    CheckpointOptions,
    Section,
    TopLevel,
    as_section,
    plain,
)
from fedgraft.experiment.recipes.suiting import check_merging, check_needs, fitted_sampler, fitted_sharing
from fedgraft.experiment.recipes.task_sections import build_task, stage_name
from fedgraft.experiment.recipes.units import parse_bytes, with_sizes
from fedgraft.experiment.recipes.yardstick_choice import yardsticks_of
from fedgraft.experiment.seen_rows import untested
from fedgraft.wire.layouts import Arrays, Tree

LOG = logging.getLogger("fedgraft.data")
_UNSAID = Policy(), SecureSum(), Privacy()  # settings that a resolved recipe leaves out


@dataclass(frozen=True)
class Experiment:
    """A checked experiment; every method is built, nothing is loaded yet.

    `sections` is the recipe fully resolved: every option of every method. `own` is what clients begin with of their
    own, {} for nothing; `spent` is the claim of privacy of the run that it is of, {} for none. `agreement` is what it
    took to agree on how data are read, {client: (bytes down, bytes up)}, and `matching` to join edges between them;
    `joined` are the nodes of others that each client's were joined to, None where nobody knows. `seen` are hashes of
    rows that its first model was trained on: no score is of them; None = none. `asked` are options that a user set,
    in a file of his own or beside a recipe, such as "selector.clients".
    """

    recipe: str
    sections: Section
    data: Data[Any]
    plan: Plan
    selector: Selector[Any]
    aggregation: Aggregation
    safeguards: Safeguards
    stopping: Stopping
    yardsticks: tuple[str, ...]
    clock: Clock
    dropout: Dropout
    evaluation: Evaluation
    runtime: RuntimeOptions
    checkpoint: CheckpointOptions
    server_optimizer: ServerOptimizer[Any] | None = None
    own: Own = field(default_factory=dict)
    spent: Mapping[str, Any] = field(default_factory=dict)
    agreement: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    matching: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    joined: Mapping[int, Halo] | None = None
    seen: NDArray[np.uint64] | None = None
    asked: frozenset[str] = field(default_factory=frozenset, compare=False)

    @property
    def seed(self) -> int:
        """The seed of all randomness."""
        return self.plan.seed

    @property
    def task_name(self) -> str:
        """Name of the task."""
        return str(self.sections["task"]["name"])

    @property
    def split_seed(self) -> int | None:
        """The seed of the key by which rows are split; None where splits are drawn."""
        return self.data.split_seed_of(self.seed) if isinstance(self.data, StayingData) else None

    @property
    def agreement_known(self) -> bool:
        """Whether it is known how data are read, as it is where clients need not agree on anything."""
        return not isinstance(self.data, FittedData) or self.data.agreement is not None

    def agreed(self) -> "Experiment":
        """Return the experiment with data read by what all clients agree on, such as a column's mean.

        Their data are read here where that is not known yet.
        """
        if self.agreement_known or not isinstance(self.data, FittedData):
            return self
        with named_as_in_recipes({"data": type(self.data)}):
            published = self.data.published(self.plan.task, self.seed)
            return self.agreed_from({client: wire.pack(each) for client, each in enumerate(published)})

    def agreed_from(self, published: Mapping[int, bytes], at_sites: bool = False) -> "Experiment":
        """Return the experiment with data read by what clients agree on, from what each has published, packed.

        At sites, where nobody has all data, the task then knows what it must of them, as far as clients have told.
        """
        assert isinstance(self.data, FittedData), "others have nothing to agree on"
        agreed = agree(self.plan.task, self.data, published)
        reading = replace(self.with_data(agreed.data), agreement=agreed.sizes)
        if at_sites:
            reading = reading.with_data(agreed.named_data)
        return reading.with_task(agreed.task_at_sites()) if at_sites or self.data.splits_by_agreement else reading

    def reading(self, agreement: Tree) -> "Experiment":
        """Return the experiment with data read by what clients agreed on in another run."""
        assert isinstance(self.data, FittedData), "others have nothing to agree on"
        return self.with_data(self.data.agreeing(agreement))

    def with_data(self, data: Data[Any]) -> "Experiment":
        """Return the experiment on a data set of the same name."""
        return replace(self, data=data, sections=self._with_sections(data=data))

    def _with_sections(self, **methods: Any) -> Section:
        made = {name: as_section(self.sections[name]["name"], method) for name, method in methods.items()}
        return {**self.sections, **made}

    def shards(self) -> Sequence[Any]:
        """Load every client's data, as the task reads them."""
        with named_as_in_recipes({"data": type(self.data)}):
            shards = derived_shards(self.plan.task, self.data.load(self.seed), self.seed, self.split_seed)
        return shards if self.seen is None else untested(shards, self.seen)

    def to_toml(self) -> str:
        """The resolved recipe; `from_toml` gives the same experiment back."""
        try:
            return tomli_w.dumps({"recipe": self.recipe, **self.sections})
        except TypeError as error:
            why = f"({error}). What is given as an object, such as a table in memory, must be given as a file."
            raise InputError(f"This experiment cannot be stored {why}") from error

    @classmethod
    def from_toml(cls, text: str, where: str = "The stored experiment") -> "Experiment":
        """An experiment from its resolved recipe; `where` that is, such as its file, for errors."""
        content = contents(text, where)
        try:
            return build(str(content.pop("recipe", "")), content)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error

    def fitted(self, shards: Sequence[Any]) -> "Experiment":
        """Return the experiment with a task that knows what it must of the data, and a cohort of no more than all.

        Raises `InputError` where the task was told otherwise.
        """
        if (cohort := self.among(len(shards))) is not self:
            return cohort.fitted(shards)
        if (suited := suiting.judged_by_data(self.plan.task, self.data, shards)) != self.plan.task:
            return self.with_task(suited).fitted(shards)
        task = self.plan.task.fitted(shards) if isinstance(self.plan.task, FittedTask) else self.plan.task
        fitted = suiting.affordable(self.plan, task, self.stopping.bytes, len(shards))
        if task == self.plan.task and fitted == self.plan.sharing:
            return self
        suiting.check_told(self.plan.task, task)
        return self.with_task(task, fitted)

    def among(self, count: int) -> "Experiment":
        """Return the experiment with a cohort of no more than so many clients, with a note where one was asked for.

        Where sums hold noise and it is not said of how many clients, it follows from the cohort.
        """
        wanted = self.sections["selector"].get("clients")
        if not isinstance(wanted, int) or wanted <= count:
            return self._with_noise_of(wanted if isinstance(wanted, int) and wanted else count, count)
        if "selector.clients" in self.asked or not is_usual(self.recipe, "selector", "clients", wanted):
            LOG.warning("selector.clients = %d is more than there are clients: all %d train.", wanted, count)
        fewer: Any = replace(self.selector, clients=count)  # type: ignore[type-var]
        return replace(self, selector=fewer, sections=self._with_sections(selector=fewer))._with_noise_of(count, count)

    def _with_noise_of(self, cohort: int, clients: int) -> "Experiment":
        if (plan := private.with_shares(self.plan, cohort, clients)) is self.plan:
            return self
        return replace(self, plan=plan, sections={**self.sections, "privacy": plain(asdict(plan.privacy))})

    def at_sites(self) -> "Experiment":
        """Return the experiment on data that nobody here has."""
        return replace(self, plan=replace(self.plan, at_sites=True))

    def with_task(self, task: Task[Any, Any], sharing: Sharing[Any] | None = None) -> "Experiment":
        """Return the experiment with a task that knows what it must of data, and what depends on it fitted to it."""
        task = discovery.construct(type(task), "task", discovery.options_of(task))
        sharing = sharing or fitted_sharing(self.plan.sharing, task)
        sampler, rows = fitted_sampler(self.plan.sampler, task), build_rows(self.sections, task)
        plan = replace(self.plan, task=task, sharing=sharing, sampler=sampler, rows=rows)
        known = {key: value for key, value in plain(discovery.options_of(task)).items() if key in self.sections["task"]}
        others = [section for section in STAGES if section in self.sections and section != "model"]  # encoders stay
        stages = {section: getattr(task, STAGES[section]) for section in others}
        sections = self._with_sections(sharing=sharing, sampler=sampler, **stages)
        return replace(self, plan=plan, sections={**sections, "task": {**self.sections["task"], **known}})

    def with_changes(self, changes: Mapping[str, Any]) -> "Experiment":
        """Return the experiment with some keys changed, as by overrides."""
        changed = build(self.recipe, override(self.sections, changes)).started(self.plan.start, self.own, self.spent)
        return replace(changed, seen=self.seen, asked=self.asked | changes.keys())

    def started(self, start: Arrays, own: Own | None = None, spent: Mapping[str, Any] | None = None) -> "Experiment":
        """Return the experiment that begins with shared parameters, {} = drawn ones, and with clients' own of a run.

        `spent` is what that run claims of privacy.
        """
        begun = replace(self, own=own or {}, spent=spent or {})
        return replace(begun, plan=replace(self.plan, start=start)) if start else begun


def load(
    recipe: str, overrides: Mapping[str, Any] | None = None, switch: str = "", also: Also | None = None
) -> Experiment:
    """An experiment from a recipe's name or TOML file, and overrides {"section.key": value}.

    `switch` is what a user calls the switch for secure sums that is on, such as "--secure"; "" = none is. `also` says
    what does not suit of things beside the recipe, which is told with the rest.
    """
    name, content = read_recipe(recipe)
    return chosen(name, content, overrides or {}, own_options(recipe), switch, also)


def chosen(
    name: str,
    content: Section,
    changes: Mapping[str, Any],
    own: Collection[str] = (),
    switch: str = "",
    also: Also | None = None,
) -> Experiment:
    """An experiment from what a recipe of this name holds; `own` are the options in it that its user has set."""
    made: Experiment = secured.built(lambda section: build(name, section), content, changes, own, switch, also)
    return replace(made, asked=frozenset((*own, *changes)))


def build(recipe: str, content: Section) -> Experiment:
    """Check everything and build every method. Raises `InputError` for whatever is wrong."""
    content = with_encoder(renamed(content))
    _check_sections(content)
    seed, rounds = integer(content, "seed", TopLevel.seed), integer(content, "rounds", TopLevel.rounds)
    require(seed >= 0, "seed", ">= 0", seed)
    task_name, data_section = task_of(content)
    sharing: Sharing[Any] = discovery.build("sharing", "sharing", section_of(content, "sharing", default="fedavg"))
    aggregation = discovery.build("aggregation", "aggregation", section_of(content, "aggregation", default="mean"))
    runtime: RuntimeOptions = discovery.build(
        "runtimes", "runtime", section_of(content, "runtime", default="processes")
    )
    task = build_task(content, task_name, sharing)
    sharing = fitted_sharing(sharing, task)
    selector: Selector[Any] = discovery.build("selectors", "selector", section_of(content, "selector"))
    sampler: Sampler[Any] = discovery.build("samplers", "sampler", section_of(content, "sampler", default="all"))
    check_needs(selector, sampler, task)
    settings = {
        name: discovery.construct(cls, name, with_sizes(name, section_of(content, name, named=False)), named=False)
        for name, cls in SETTINGS.items()
    }
    check_merging(sharing, settings["evaluation"].averaging, aggregation, settings["safeguards"].clip)
    task = suiting.judged(task, settings["evaluation"].metric, task_name)
    budget = settings.pop("budget")
    size = parse_bytes(budget.bytes, "budget.bytes")
    stopping = Stopping(rounds, size, budget.seconds, integer(content, "patience", TopLevel.patience))
    uplink = build_codec("codec", content.get("codec", {"name": "identity"}))
    plan = Plan(
        task=task,
        sampler=fitted_sampler(sampler, task),
        sharing=sharing,
        downlink=build_codec("downlink", content["downlink"]) if "downlink" in content else uplink,
        uplink=uplink,
        rows=build_rows(content, task),
        training=settings["training"],
        reports=selector.reports,
        seed=seed,
        device=runtime.device,
        keep_best=settings["evaluation"].keep == "best" and settings["evaluation"].at != HOME,
        local_steps=settings["evaluation"].local_steps,
        policy=settings["policy"],
        secure_sum=settings["secure_sum"],
        privacy=settings["privacy"],
        rounds=rounds,
        probes=isinstance(selector, ProbingSelector),
        at_clients=settings["evaluation"].at == "clients",
        at_home=settings["evaluation"].at == HOME,
    )
    yardsticks = yardsticks_of(content, task_name)
    # Last: where they are must be said, so who misspells another option would first be told to say it.
    data: Data[Any] = discovery.build("data", "data", data_section)
    plan = secured.checked(plan, selector, aggregation, settings, stopping, data_section.get("clients"))
    plan = sealed_by_data(content, plan, data)
    optimizer = suiting.server_optimizer_of(content, sharing)
    chosen = {"selector": selector, "aggregation": aggregation, "runtime": runtime, "server_optimizer": optimizer}
    resolved = _resolve(content, task_name, data, plan, chosen, stopping, settings, yardsticks)
    used = {name: settings[name] for name in ("clock", "safeguards", "dropout", "evaluation", "checkpoint")}
    return Experiment(recipe, resolved, data, plan, **chosen, stopping=stopping, yardsticks=yardsticks, **used)


def _check_sections(content: Section) -> None:
    """Raise `InputError` for a key that nothing reads, and where there are no data or no selector."""
    for key in content:
        if key not in METHODS and key not in SETTINGS and key not in VALUES:
            raise unknown("key", key, [*METHODS, *SETTINGS, *VALUES])
    check_alternatives(content)
    for section in ("data", "selector"):
        if section not in content:
            known = ", ".join(discovery.names(METHODS[section]))
            instead = f'a line such as {EXTENDS} = "fedacs" at the top of the recipe'
            raise InputError(f"[{section}] needs a name, or {instead}. Known: {known}.")


def _resolve(
    content: Section,
    task: str,
    data: Data[Any],
    plan: Plan,
    chosen: Mapping[str, Any],
    stopping: Stopping,
    settings: Mapping[str, Any],
    yardsticks: tuple[str, ...],
) -> Section:
    """Every option of every method with its value, but for what is not used, as TOML can hold it."""
    task_options = discovery.options_of(plan.task)
    made = {section: task_options.pop(field) for section, field in STAGES.items() if field in task_options}
    stages = {section: as_section(stage_name(content, section, stage), stage) for section, stage in made.items()}
    names = {name: section_of(content, name, default=d)["name"] for name, d in DEFAULT_NAMES.items()}
    step = chosen["server_optimizer"]
    methods: dict[str, Any] = {
        "data": as_section(section_of(content, "data")["name"], data),
        "task": {"name": task, **plain(task_options)},
        **{section: without_layers(stage) if section == "model" else stage for section, stage in stages.items()},
        "selector": as_section(section_of(content, "selector")["name"], chosen["selector"]),
        "sampler": as_section(names["sampler"], plan.sampler),
        "sharing": as_section(names["sharing"], plan.sharing),
        "aggregation": as_section(names["aggregation"], chosen["aggregation"]),
        **({"server_optimizer": as_section(section_of(content, "server_optimizer")["name"], step)} if step else {}),
        "codec": resolved_codec(content.get("codec", "identity"), plan.uplink),
        **({"downlink": resolved_codec(content["downlink"], plan.downlink)} if "downlink" in content else {}),
        **({"rows": resolved_codec(content["rows"], plan.rows)} if "rows" in content else {}),
    }
    return {
        "description": str(content.get("description", "")),
        "seed": plan.seed,
        "rounds": stopping.rounds,
        "patience": stopping.patience,
        "yardsticks": list(yardsticks),
        **methods,
        **{name: plain(asdict(value)) for name, value in settings.items() if value not in _UNSAID},
        "runtime": as_section(names["runtime"], chosen["runtime"]),
        "budget": {"bytes": stopping.bytes, "seconds": stopping.seconds},
    }
