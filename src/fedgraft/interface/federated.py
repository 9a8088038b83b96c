"""What `fedgraft run --on DIR` and `resume` do: the recipe as a federation runs it, at its nodes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from fedgraft.engine.plan import HOME
from fedgraft.engine.privacy.secure_sum import SIGNED_KEYS
from fedgraft.errors import InputError, MachineError
from fedgraft.experiment.job import Job, chosen, load
from fedgraft.experiment.recipes.options import Finding
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.recipes.server_choices import FEDERATION_S
from fedgraft.experiment.running import portable, runner
from fedgraft.experiment.storage import folder_check
from fedgraft.experiment.storage.folder_check import FEDERATION
from fedgraft.experiment.storage.outside_classes import stored_experiment
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.interface.federated_run import Nodes
from fedgraft.interface.progress import Progress
from fedgraft.runtimes.federation.folders import FederationFolder
from fedgraft.runtimes.federation.signers import MADE_BY, REMEDY, is_signed, made_here

SITES: Final = "sites"
SCORED_AT: Final = "evaluation.at"
_REMEDY: Final = REMEDY[:1].lower() + REMEDY[1:]


def run_on(
    path: Path, recipe: str, overrides: Mapping[str, Any], folder: Path, quiet: bool = False, switch: str = ""
) -> dict[str, Any]:
    """Run a recipe at the nodes of a federation, show its progress, and return the summary.

    The data and the task are the federation's; the run's `folder` is on this machine, which is the server's. `switch`
    as in `job.load`.
    """
    federation = FederationFolder.read(path)
    experiment = on_federation(recipe, overrides, federation, switch)
    folder_check.check_free(folder)
    with _followed(federation, experiment, folder, quiet) as (progress, nodes):
        return runner.execute(experiment, folder, progress, sites=nodes)


def resume_on(run_folder: RunFolder, before: bool, quiet: bool = False) -> dict[str, Any]:
    """Take a run of a federation up; arguments as `runner.resume`."""
    federation = FederationFolder.read(Path(run_folder.environment()[FEDERATION]))
    experiment = stored_experiment(run_folder)
    with _followed(federation, experiment, run_folder.folder, quiet) as (progress, nodes):
        return runner.resume(run_folder, progress, before, nodes)


@contextmanager
def _followed(
    federation: FederationFolder, experiment: Job, folder: Path, quiet: bool
) -> Iterator[tuple[Progress, Nodes]]:
    """Enter with what shows a run, and the nodes of its federation."""
    if len(federation.keyless()) == len(federation.clients):
        raise InputError(f"{federation.path} has no site with a key; 'fedgraft federation add' adds one.")
    portable.begin_again(load(str(federation.recipe)).runtime)
    try:
        with Progress.of(experiment, quiet) as progress:
            yield progress, Nodes(federation, progress.note)
    except MachineError as error:
        if not (folder / "experiment.toml").exists():
            raise
        raise MachineError(f"{error} Then go on with 'fedgraft resume {folder}'.") from error


def is_federated(run_folder: RunFolder) -> bool:
    """Return whether a run's clients are at the nodes of a federation."""
    return FEDERATION in run_folder.environment()


def on_federation(recipe: str, overrides: Mapping[str, Any], federation: FederationFolder, switch: str = "") -> Job:
    """Return a recipe as a federation runs it: on its data, with its task, at its nodes.

    Clients score models there, which the ledger counts, unless an override or the recipe says otherwise. The
    federation's own recipe says every option, and so does not, but where no score leaves a client. `switch`, as in
    `job.load`, changes nothing of the federation's.
    """
    for key in overrides:
        if key.partition(".")[0] in FEDERATION_S:
            raise InputError(f"{key} cannot be given with --on: data and task are those of {federation.recipe}.")
    own = load(str(federation.recipe))
    read, theirs = Recipe.read(recipe), own.recipe.sections
    others = {key: value for key, value in read.sections.items() if key not in FEDERATION_S}
    read = replace(read, sections={**others, **{key: theirs[key] for key in FEDERATION_S if key in theirs}})
    changes = {"seed": own.seed, **overrides, "baselines": []}
    resolved = Path(recipe).resolve() == federation.recipe
    at = read.section("evaluation").get("at")
    if (resolved and at != HOME) or at is None:
        changes.setdefault(SCORED_AT, "clients")
    if read.section("runtime").get("name") != SITES and overrides.get("runtime.name") != SITES:
        changes["runtime.name"] = SITES
    read = (Recipe(read.name, read.sections) if resolved else read).asking(FEDERATION_S)
    return chosen(read, changes, switch, partial(keys_of_server, federation))


def keys_made_here(recipe: Mapping[str, Any]) -> list[Finding]:
    """Return why keys that a command makes here do not suit a recipe."""
    return [Finding(MADE_BY.format("this command"), _REMEDY)] if is_signed(recipe) else []


def keys_of_server(federation: FederationFolder, recipe: Mapping[str, Any]) -> list[Finding]:
    """Return which keys of a federation do not suit a recipe, for the server has made them."""
    if not is_signed(recipe) or federation.insecure or not (names := made_here(federation)):
        return []
    why = f"{SIGNED_KEYS} = true, and the server made the keys of {', '.join(names)}, so that it could sign for them"
    return [Finding(why, _REMEDY)]
