"""Train."""

import itertools
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fedgraft.errors import InputError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.recipe import parse_override
from fedgraft.experiment.recipes.sections import METHODS, VALUES
from fedgraft.experiment.recipes.sections import SETTINGS as SECTIONS
from fedgraft.experiment.running import portable
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.running.warm_start import start_from
from fedgraft.interface import federated
from fedgraft.interface.commands.ends import resumable, show_seeds, show_summary, startable
from fedgraft.interface.commands.options import SETTINGS, AsJson, Changes, Quiet, Recipe, Seed, Track, say
from fedgraft.interface.progress import Progress
from fedgraft.interface.seed_runs import parse_seeds, run_seeds
from fedgraft.interface.trackers import followed

app = typer.Typer(**SETTINGS)


class RunCommand(TyperCommand):
    """The command; a recipe's key that is given as an option gets the way to write it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments. Raises `InputError` for "--rounds 3" and the like."""
        known = {name for each in self.get_params(ctx) for name in each.opts}
        for argument in args:
            option = argument.partition("=")[0]
            key = option.removeprefix("--")
            if option not in known and option != key and key.partition(".")[0] in (*METHODS, *SECTIONS, *VALUES):
                raise InputError(f"{option} is a key of recipes, and no option: write {key}=VALUE, without dashes.")
        return super().parse_args(ctx, args)


@app.command(cls=RunCommand)
def run(
    recipe: Recipe,
    changes: Changes = None,
    seed: Seed = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="1,2,3", help="Run each seed, in --out/seed-1 ...; started again, it goes on.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New or empty folder. Default: runs/RECIPE-DATE-TIME.")] = None,
    on: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Run at the nodes of a federation, see 'fedgraft federation'.")
    ] = None,
    start: Annotated[
        Path | None, typer.Option("--from", metavar="RUN", help="Begin with the model of this run, on these data.")
    ] = None,
    secure: Annotated[
        bool,
        typer.Option("--secure", help="Mask updates (secure sums), and change what of the recipe does not suit that."),
    ] = False,
    track: Track = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train. Example: fedgraft run fedacs data.name=ciao data.root=DIR budget.bytes=2MB --seed 1 --out runs/a."""
    overrides, switch = dict(parse_override(change) for change in changes or []), "--secure" if secure else ""
    if seed is not None:
        overrides["seed"] = seed
    if seeds is not None:
        if seed is not None or on is not None or start is not None or track:
            without = "--seed, --on, --from and --track"
            raise InputError(f"--seeds goes without {without}; got --seeds {seeds} beside one of them.")
        several(jobs.load(recipe, overrides, switch), parse_seeds(seeds), out, as_json, quiet)
        return
    if on is not None:
        if track:
            raise InputError("--track is not for --on: follow rounds.jsonl in the run's folder.")
        if start is not None:
            raise InputError("--from is not for --on: the nodes of a federation draw the model that they begin with.")
        folder = out or free_folder(on.resolve().name)
        with resumable(folder):
            summary = federated.run_on(on, recipe, overrides, folder, quiet, switch)
        show_summary(summary, folder, as_json)
        return
    begin = None if start is None else start_from(start)
    experiment = jobs.load(recipe, overrides, switch, begin.findings if begin else None)
    portable.begin_again(experiment.runtime)
    folder = out or free_folder(experiment.recipe.name)
    with (
        resumable(folder),
        Progress.of(experiment, quiet) as progress,
        followed(progress, experiment, folder, track or []) as watcher,
    ):
        summary = execute(experiment, folder, watcher, start=begin)
        watcher.end(summary)
    show_summary(summary, folder, as_json)


def several(experiment: Job, seeds: list[int], out: Path | None, as_json: bool, quiet: bool) -> None:
    """Run an experiment with several seeds, and tell means and spreads."""
    portable.begin_again(experiment.runtime)
    folder = out or free_folder(experiment.recipe.name)
    with startable(folder):
        summaries = run_seeds(experiment, seeds, folder, quiet, say)
    show_seeds(summaries, folder, as_json)


def free_folder(name: str) -> Path:
    """Return a folder for a run, named after what is run and the second; a number follows where that is taken."""
    folder = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    numbered = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    return next(each for each in itertools.chain([folder], numbered) if not each.exists())
