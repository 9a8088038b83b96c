"""A job: one choice for each of the seven questions, plus data, budget and seed, as a recipe says it.

Everything is checked and every method built before any data are loaded. Unknown sections and keys are errors.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fedgraft import wire
from fedgraft.contracts import (
    Aggregation,
    ProbingSelector,
    RuntimeOptions,
    Sampler,
    Selector,
    ServerOptimizer,
    Sharing,
    Task,
)
from fedgraft.contracts.abilities.tasks import derived_shards
from fedgraft.contracts.data import AgreedData, Data
from fedgraft.engine.plan import HOME, Plan
from fedgraft.engine.server.loop.stopping import Stopping
from fedgraft.errors import InputError, require, unknown
from fedgraft.experiment.carried_over import Joined, WarmStart
from fedgraft.experiment.recipes import discovery, private, secured, suiting
from fedgraft.experiment.recipes.agreeing import agree
from fedgraft.experiment.recipes.codec_sections import (
    build_codec,
    build_rows,
    check_rows,
    resolved_codec,
    sealed_by_data,
)
from fedgraft.experiment.recipes.options import Also
from fedgraft.experiment.recipes.recipe import (
    DEFAULT_NAMES,
    EXTENDS,
    Recipe,
    check_alternatives,
    is_usual,
    renamed,
)
from fedgraft.experiment.recipes.sections import (
    METHODS,
    SETTINGS,
    STAGES,
    VALUES,
    Section,
    Settings,
    TopLevel,
    as_section,
    plain,
)
from fedgraft.experiment.recipes.suiting import check_merging, check_needs, fitted_to
from fedgraft.experiment.recipes.task_sections import (
    baselines_of,
    build_task,
    stage_name,
    task_of,
    with_encoder,
    without_layers,
)
from fedgraft.experiment.recipes.units import parse_bytes, with_sizes
from fedgraft.wire.layouts import Arrays, Tree

LOG = logging.getLogger("fedgraft.data")
_UNSAID = [
    SETTINGS[name]() for name in ("policy", "secure_sum", "privacy")
]  # settings that a resolved recipe leaves out


@dataclass(frozen=True)
class Job:
    """A checked recipe, ready to run: every method is built, nothing is loaded yet.

    `recipe` has every option of every method.
    """

    recipe: Recipe
    data: Data[Any]
    plan: Plan
    selector: Selector[Any]
    aggregation: Aggregation
    server_optimizer: ServerOptimizer[Any] | None
    runtime: RuntimeOptions
    stopping: Stopping
    settings: Settings
    baselines: tuple[str, ...]
    begins: WarmStart = field(default_factory=WarmStart)
    joined: Joined = field(default_factory=Joined)

    @property
    def seed(self) -> int:
        """The seed of all randomness."""
        return self.plan.seed

    @property
    def task_name(self) -> str:
        """Name of the task."""
        return str(self.recipe.sections["task"]["name"])

    @property
    def split_seed(self) -> int | None:
        """The seed of the key by which rows are split; None where splits are drawn."""
        return self.data.split_seed_of(self.seed)

    @property
    def agreement_known(self) -> bool:
        """Whether it is known how data are read, as it is where clients need not agree on anything."""
        return not isinstance(self.data, AgreedData) or self.data.agreement is not None

    def agreed(self) -> "Job":
        """Return the experiment with data read by what all clients agree on, such as a column's mean.

        Their data are read here where that is not known yet.
        """
        if self.agreement_known or not isinstance(self.data, AgreedData):
            return self
        with discovery.named_as_in_recipes({"data": type(self.data)}):
            published = self.data.published(self.plan.task, self.seed)
            return self.agreed_from({client: wire.pack(each) for client, each in enumerate(published)})

    def agreed_from(self, published: Mapping[int, bytes], at_sites: bool = False) -> "Job":
        """Return the experiment with data read by what clients agree on, from what each has published, packed.

        At sites, where nobody has all data, the task then knows what it must of them, as far as clients have told.
        """
        assert isinstance(self.data, AgreedData), "others have nothing to agree on"
        agreed = agree(self.plan.task, self.data, published)
        reading = self.with_data(agreed.data).after(agreement=agreed.sizes)
        if at_sites:
            reading = reading.with_data(agreed.named_data)
        return reading.with_task(agreed.task_at_sites()) if at_sites or self.data.splits_by_agreement else reading

    def reading(self, agreement: Tree) -> "Job":
        """Return the experiment with data read by what clients agreed on in another run."""
        assert isinstance(self.data, AgreedData), "others have nothing to agree on"
        return self.with_data(self.data.agreeing(agreement))

    def with_data(self, data: Data[Any]) -> "Job":
        """Return the experiment on a data set of the same name."""
        return replace(self, data=data, recipe=self._resolved(data=data))

    def after(self, **sent: Any) -> "Job":
        """Return the experiment with what clients have sent before the run, by the fields of `Joined`."""
        return replace(self, joined=replace(self.joined, **sent))

    def _resolved(self, **methods: Any) -> Recipe:
        names = {section: self.recipe.sections[section]["name"] for section in methods}
        return self.recipe.with_sections({name: as_section(names[name], each) for name, each in methods.items()})

    def shards(self) -> Sequence[Any]:
        """Load every client's data, as the task reads them."""
        with discovery.named_as_in_recipes({"data": type(self.data)}):
            shards = derived_shards(self.plan.task, self.data.load(self.seed), self.seed, self.split_seed)
        return self.begins.unseen(shards)

    def to_toml(self) -> str:
        """The resolved recipe; `from_toml` gives the same experiment back."""
        return self.recipe.to_toml()

    @classmethod
    def from_toml(cls, text: str, where: str = "The stored experiment") -> "Job":
        """An experiment from its resolved recipe; `where` that is, such as its file, for errors."""
        recipe = Recipe.parsed(text, where)
        try:
            return build(recipe)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error

    def fitted(self, shards: Sequence[Any]) -> "Job":
        """Return the experiment with a task that knows what it must of the data, and a cohort of no more than all.

        Raises `InputError` where the task was told otherwise.
        """
        job = self.among(len(shards))
        suited = job.plan.task.judged_by(shards, job.data.judged_by_data)
        task = suited.fitted(shards)
        sharing = suiting.affordable(job.plan, task, job.stopping.bytes, len(shards))
        if task == job.plan.task and sharing == job.plan.sharing:
            return job
        suiting.check_told(suited, task)
        return job.with_task(task, sharing)

    def among(self, count: int) -> "Job":
        """Return the experiment with a cohort of no more than so many clients, with a note where one was asked for.

        Where sums hold noise and it is not said of how many clients, it follows from the cohort.
        """
        wanted = self.recipe.sections["selector"].get("clients")
        if not isinstance(wanted, int) or wanted <= count:
            return self._with_noise_of(wanted if isinstance(wanted, int) and wanted else count, count)
        if "selector.clients" in self.recipe.asked or not is_usual(self.recipe.name, "selector", "clients", wanted):
            LOG.warning("selector.clients = %d is more than there are clients: all %d train.", wanted, count)
        fewer: Any = replace(self.selector, clients=count)  # type: ignore[type-var]
        made = replace(self, selector=fewer, recipe=self._resolved(selector=fewer))
        return made._with_noise_of(count, count)

    def _with_noise_of(self, cohort: int, clients: int) -> "Job":
        if (plan := private.with_shares(self.plan, cohort, clients)) is self.plan:
            return self
        return replace(self, plan=plan, recipe=self.recipe.with_sections({"privacy": plain(asdict(plan.privacy))}))

    def at_sites(self) -> "Job":
        """Return the experiment on data that nobody here has."""
        return replace(self, plan=replace(self.plan, at_sites=True))

    def with_task(self, task: Task[Any, Any], sharing: Sharing[Any] | None = None) -> "Job":
        """Return the experiment with a task that knows what it must of data, and what depends on it fitted to it."""
        task = discovery.construct(type(task), "task", discovery.options_of(task))
        sharing = sharing or fitted_to(self.plan.sharing, "sharing", task)
        sampler = fitted_to(self.plan.sampler, "sampler", task)
        check_rows(self.plan.rows, task)
        plan, before = replace(self.plan, task=task, sharing=sharing, sampler=sampler), self.recipe.sections
        known = {key: value for key, value in plain(discovery.options_of(task)).items() if key in before["task"]}
        others = [section for section in STAGES if section in before and section != "model"]  # encoders stay
        stages = {section: getattr(task, STAGES[section]) for section in others}
        recipe = self._resolved(sharing=sharing, sampler=sampler, **stages)
        return replace(self, plan=plan, recipe=recipe.with_sections({"task": {**before["task"], **known}}))

    def with_changes(self, changes: Mapping[str, Any]) -> "Job":
        """Return the experiment with some keys changed, as by overrides."""
        recipe = self.recipe.changed(changes).asking(changes.keys())
        return build(recipe).started(self.plan.start, self.begins)

    def started(self, start: Arrays, begins: WarmStart) -> "Job":
        """Return the experiment that begins with shared parameters, {} = drawn ones, and with more of a run."""
        begun = replace(self, begins=begins)
        return replace(begun, plan=replace(self.plan, start=start)) if start else begun


Experiment = Job
"""Its public name of before."""


def load(recipe: str, overrides: Mapping[str, Any] | None = None, switch: str = "", also: Also | None = None) -> Job:
    """An experiment from a recipe's name or TOML file, and overrides {"section.key": value}.

    `switch` is what a user calls the switch for secure sums that is on, such as "--secure"; "" = none is. `also` says
    what does not suit of things beside the recipe, which is told with the rest.
    """
    return chosen(Recipe.read(recipe), overrides or {}, switch, also)


def chosen(recipe: Recipe, changes: Mapping[str, Any], switch: str = "", also: Also | None = None) -> Job:
    """An experiment of a recipe with overrides; further arguments as of `load`."""
    made: Job = secured.built(build, recipe, changes, switch, also)
    return replace(made, recipe=made.recipe.asking((*recipe.asked, *changes)))


def build(recipe: Recipe) -> Job:
    """Check everything and build every method. Raises `InputError` for whatever is wrong."""
    recipe = with_encoder(replace(recipe, sections=renamed(recipe.sections)))
    _check_sections(recipe.sections)
    seed, rounds = recipe.integer("seed", TopLevel.seed), recipe.integer("rounds", TopLevel.rounds)
    require(seed >= 0, "seed", ">= 0", seed)
    task_name, data_section = task_of(recipe)
    sharing: Sharing[Any] = _built(recipe, "sharing")
    aggregation: Aggregation = _built(recipe, "aggregation")
    runtime: RuntimeOptions = _built(recipe, "runtime")
    task = build_task(recipe, task_name, sharing)
    sharing = fitted_to(sharing, "sharing", task)
    selector: Selector[Any] = _built(recipe, "selector")
    sampler: Sampler[Any] = _built(recipe, "sampler")
    check_needs(selector, sampler, task)
    settings = _settings(recipe)
    check_merging(sharing, settings.evaluation.averaging, aggregation, settings.safeguards.clip)
    task = suiting.judged(task, settings.evaluation.metric, task_name)
    size, patience = parse_bytes(settings.budget.bytes, "budget.bytes"), recipe.integer("patience", TopLevel.patience)
    stopping = Stopping(rounds, size, settings.budget.seconds, patience)
    settings = replace(settings, budget=replace(settings.budget, bytes=size))
    codecs = recipe.sections
    uplink = build_codec("codec", codecs.get("codec", {"name": "identity"}))
    plan = Plan(
        task=task,
        sampler=fitted_to(sampler, "sampler", task),
        sharing=sharing,
        downlink=build_codec("downlink", codecs["downlink"]) if "downlink" in codecs else uplink,
        uplink=uplink,
        rows=build_rows(recipe, task),
        training=settings.training,
        reports=selector.reports,
        seed=seed,
        device=runtime.device,
        keep_best=settings.evaluation.keep == "best" and settings.evaluation.at != HOME,
        local_steps=settings.evaluation.local_steps,
        policy=settings.policy,
        secure_sum=settings.secure_sum,
        privacy=settings.privacy,
        rounds=rounds,
        probes=isinstance(selector, ProbingSelector),
        scored_at=settings.evaluation.at,
    )
    baselines = baselines_of(recipe.sections, task_name)
    # Last: where they are must be said, so who misspells another option would first be told to say it.
    data: Data[Any] = discovery.build("data", "data", data_section)
    plan = secured.checked(plan, selector, aggregation, settings, stopping, data_section.get("clients"))
    plan = sealed_by_data(recipe, plan, data)
    optimizer = suiting.server_optimizer_of(recipe, sharing)
    parts = (data, plan, selector, aggregation, optimizer, runtime, stopping, settings, baselines)
    made = Job(recipe, *parts)
    return replace(made, recipe=replace(recipe, sections=_resolved(made, task_name)))


def _built(recipe: Recipe, section: str) -> Any:
    """The method that a section names, or the one by default."""
    return discovery.build(METHODS[section], section, recipe.section(section, default=DEFAULT_NAMES.get(section, "")))


def _settings(recipe: Recipe) -> Settings:
    """What the sections without a name set."""
    each = {name: with_sizes(name, recipe.section(name, named=False)) for name in SETTINGS}
    return Settings(**{name: discovery.construct(SETTINGS[name], name, each[name], named=False) for name in SETTINGS})


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


def _resolved(made: Job, task: str) -> Section:
    """Every option of every method with its value, but for what is not used, as TOML can hold it."""
    recipe, plan, stopping = made.recipe, made.plan, made.stopping
    content, task_options = recipe.sections, discovery.options_of(plan.task)
    stages = {section: task_options.pop(field) for section, field in STAGES.items() if field in task_options}
    of_stages = {name: as_section(stage_name(recipe, name, stage), stage) for name, stage in stages.items()}

    def section(name: str, method: Any) -> Section:
        return as_section(recipe.section(name, default=DEFAULT_NAMES.get(name, ""))["name"], method)

    methods: dict[str, Any] = {
        "data": section("data", made.data),
        "task": {"name": task, **plain(task_options)},
        **{name: without_layers(stage) if name == "model" else stage for name, stage in of_stages.items()},
        "selector": section("selector", made.selector),
        "sampler": section("sampler", plan.sampler),
        "sharing": section("sharing", plan.sharing),
        "aggregation": section("aggregation", made.aggregation),
        **({"server_optimizer": section("server_optimizer", step)} if (step := made.server_optimizer) else {}),
        "codec": resolved_codec(content.get("codec", "identity"), plan.uplink),
        **({"downlink": resolved_codec(content["downlink"], plan.downlink)} if "downlink" in content else {}),
        **({"rows": resolved_codec(content["rows"], plan.rows)} if "rows" in content else {}),
    }
    settings = {name: getattr(made.settings, name) for name in SETTINGS if name != "budget"}
    return {
        "description": str(content.get("description", "")),
        "seed": plan.seed,
        "rounds": stopping.rounds,
        "patience": stopping.patience,
        "baselines": list(made.baselines),
        **methods,
        **{name: plain(asdict(value)) for name, value in settings.items() if value not in _UNSAID},
        "runtime": section("runtime", made.runtime),
        "budget": {"bytes": stopping.bytes, "seconds": stopping.seconds},
    }
