"""The sections of a recipe: which name a method, and what the others set."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from fedgraft.engine.privacy.options import Privacy
from fedgraft.engine.privacy.policy import Policy
from fedgraft.engine.privacy.secure_sum import SecureSum
from fedgraft.engine.server.clock import Clock, Dropout
from fedgraft.engine.server.loop.stopping import Evaluation
from fedgraft.engine.server.rounds.safeguards import Safeguards
from fedgraft.engine.training import Training
from fedgraft.errors import require
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.options import hints_of
from fedgraft.tables.table_files import absolute, is_address

Section = dict[str, Any]

METHODS = {
    "data": "data",
    "task": "tasks",
    "inputs": "inputs",
    "model": "models",
    "loss": "losses",
    "exchange": "exchanges",
    "answers": "answers",
    "selector": "selectors",
    "sampler": "samplers",
    "codec": "codecs",
    "downlink": "codecs",
    "rows": "codecs",
    "sharing": "sharing",
    "aggregation": "aggregation",
    "server_optimizer": "server_optimizers",
    "runtime": "runtimes",
}
"""Sections that name a method, and the method's family."""
STAGES = {
    "inputs": "inputs",
    "model": "encoder",
    "loss": "objective",
    "exchange": "exchange",
    "answers": "answering",
}
"""Sections that say of what a task is made, and the field of the task that each is; a task need not have them all."""
QUESTIONS = {
    "data": "What is there to learn from? The data set, and how it is dealt to clients.",
    "task": "To solve what? The data say which task; only its own options are set here, its stages in other sections.",
    "inputs": "What is read of features? Without a name it is what the task reads by default.",
    "model": "With which graph encoder? Left out for a task that has a model of its own.",
    "loss": "What is made small? The loss of training. Without a name it is that of the task by default.",
    "exchange": "What do clients tell each other of nodes? Without a name it is as the task has it by default.",
    "answers": "What is made of answers? Ways that validation chooses from, for tasks that have any.",
    "selector": "Who trains? It chooses the clients of every round.",
    "sampler": "On what? It chooses the examples, and the neighbours, that a client trains on.",
    "codec": "What is sent? The codec of updates, on the way up; of models, down, too, where there is no [downlink].\n"
    "A list of codecs is a chain; `feedback = true` in one sends what it left out with the next message.",
    "downlink": "What is sent down? The codec of models on their way to clients; that of [codec] by default.",
    "rows": "What do clients tell each other of nodes? The codec of these rows, for tasks that have any.",
    "sharing": "Shared how? What of the model is sent, and what a client trains by.",
    "aggregation": "What counts of what arrived? How updates become one.",
    "server_optimizer": "How far does the model go? What the server makes of a merged change.\n"
    'Without this section, or with name = "none", the model goes to where it was merged.',
    "runtime": "Where do clients live? In processes of this machine, on a cluster, or on machines of their own.",
}
"""What each section that names a method decides."""


@dataclass(frozen=True)
class TopLevel:
    """Keys outside sections.

    Args:
        description: one line that lists show.
        seed: of all randomness, >= 0; equal seeds give equal bits.
        rounds: most rounds, >= 1.
        patience: rounds without a better validation score after which a run ends, >= 0; 0 = it never ends so.
        baselines: names of what the model is held against; "local_only", "centralised" and "centralised_cut" train it
            by each client alone, in one place, and there without edges between clients. Unset: those of the task that
            cost little.
        alternatives: options of other sections, rounds and patience to take in place of the recipe's where a section
            names another method: [alternatives.SECTION.NAME], or [alternatives.SECTION."*"] for any other.
    """

    description: str = ""
    seed: int = 1
    rounds: int = 60
    patience: int = 0
    baselines: tuple[str, ...] | None = None
    alternatives: dict[str, Any] = field(default_factory=dict)


VALUES = tuple(each.name for each in fields(TopLevel))
"""Keys outside sections."""


@dataclass(frozen=True)
class BudgetOptions:
    """Limits of what a run may use; the first that is reached ends it.

    Args:
        bytes: on the wire, such as "2MB"; 0 = no limit.
        seconds: of the simulated clock; 0 = no limit.
    """

    bytes: int | str = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class CheckpointOptions:
    """Options of checkpoints: how often a run is stored.

    Args:
        every_seconds: least seconds between two checkpoints, >= 0; 0 stores every round, while others come so rarely
            that they take a twentieth of the time. The result does not depend on it, only how much a resume has to do
            again.
    """

    every_seconds: float = 1.0

    def __post_init__(self) -> None:
        require(self.every_seconds >= 0, "checkpoint.every_seconds", ">= 0", self.every_seconds)


@dataclass(frozen=True)
class Settings:
    """What the sections without a name set, a field each; see their classes."""

    training: Training = field(default_factory=Training)
    evaluation: Evaluation = field(default_factory=Evaluation)
    dropout: Dropout = field(default_factory=Dropout)
    clock: Clock = field(default_factory=Clock)
    safeguards: Safeguards = field(default_factory=Safeguards)
    policy: Policy = field(default_factory=Policy)
    secure_sum: SecureSum = field(default_factory=SecureSum)
    privacy: Privacy = field(default_factory=Privacy)
    budget: BudgetOptions = field(default_factory=BudgetOptions)
    checkpoint: CheckpointOptions = field(default_factory=CheckpointOptions)


SETTINGS: dict[str, type[Any]] = {each.name: each.type for each in fields(Settings)}  # type: ignore[misc]
"""Sections without a name, and what they set."""


def as_section(name: str, built: Any) -> Section:
    """The section that builds this very method: its name, and every option with its value."""
    paths = {key for key, hint in hints_of(type(built)).items() if Path in get_args(hint) or hint is Path}
    return {"name": name, **plain(discovery.options_of(built), paths)}


def plain(options: Section, paths: Collection[str] = ()) -> Section:
    """Return options as TOML can hold them: unset ones left out, paths absolute, so that a run resumes anywhere."""
    return {key: _absolute(value) if key in paths else value for key, value in options.items() if value is not None}


def _absolute(value: Any) -> Any:
    """Return a path, or those of a table of some, made absolute; anything else as it is."""
    if isinstance(value, Mapping):
        return {key: _absolute(each) for key, each in value.items()}
    if isinstance(value, str) and is_address(value):
        return absolute(value)
    return str(Path(value).resolve()) if isinstance(value, str | Path) else value
