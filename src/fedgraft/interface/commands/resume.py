"""Take a run up where it stopped; it ends with the same bits as if it never had."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fedgraft.errors import InputError
from fedgraft.experiment.recipes.sections import METHODS, VALUES
from fedgraft.experiment.recipes.sections import SETTINGS as SECTIONS
from fedgraft.experiment.running import portable
from fedgraft.experiment.running.runner import resume as take_up
from fedgraft.experiment.storage.folder_check import SUMMARY
from fedgraft.experiment.storage.outside_classes import stored_experiment
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.interface import federated
from fedgraft.interface.commands.ends import resumable, show_summary
from fedgraft.interface.commands.options import SETTINGS, AsJson, Folder, Quiet, Track, say
from fedgraft.interface.progress import Progress
from fedgraft.interface.trackers import followed

app = typer.Typer(**SETTINGS)


class ResumeCommand(TyperCommand):
    """The command; a recipe's key that is given gets the way to change it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments. Raises `InputError` for "rounds=3" and the like."""
        for argument in args:
            key, equals, value = argument.partition("=")
            if equals and key.partition(".")[0] in (*METHODS, *SECTIONS, *VALUES):
                anew = "'fedgraft run RECIPE --from RUN' begins a new one"
                way = f"write --rounds {value}" if key == "rounds" else anew
                raise InputError(f"A run goes on with its own options, so {argument} is none of resume's; {way}.")
        return super().parse_args(ctx, args)


@app.command(cls=ResumeCommand)
def resume(
    folder: Folder,
    before: Annotated[
        bool,
        typer.Option("--before", help="From the checkpoint before the last one, such as when a model was spoiled."),
    ] = False,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="How many in all, also for a run that has ended: as if asked for at first."),
    ] = None,
    track: Track = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Take a run up where it stopped; it ends with the same bits as if it never had."""
    run_folder = RunFolder.open(folder)
    experiment = stored_experiment(run_folder)
    if federated.is_federated(run_folder):
        for option, value in (("--track", track), ("--rounds", rounds)):
            if value:
                raise InputError(f"{option} is not for {folder}, whose clients are at the nodes of a federation.")
        with resumable(folder):
            show_summary(federated.resume_on(run_folder, before, quiet), folder, as_json)
        return
    portable.begin_again(experiment.runtime)
    if rounds is None and not before and (folder / SUMMARY).is_file():
        say(f"{folder} has finished already; --rounds N gives it more rounds.")
    with (
        resumable(folder),
        Progress.of(experiment, quiet, rounds) as progress,
        followed(progress, experiment, folder, track or []) as watcher,
    ):
        summary = take_up(run_folder, watcher, before, rounds=rounds)
        watcher.end(summary)
    show_summary(summary, folder, as_json)
