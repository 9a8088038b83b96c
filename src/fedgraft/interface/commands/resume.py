"""Take a run up where it stopped; it ends with the same bits as if it never had."""

from typing import Annotated

import typer

from fedgraft.experiment import portable
from fedgraft.experiment.outside_classes import stored_experiment
from fedgraft.experiment.run_folder import Store
from fedgraft.experiment.runner import resume as resume_run
from fedgraft.interface import federated
from fedgraft.interface.commands.ends import resumable, show_summary
from fedgraft.interface.commands.options import SETTINGS, AsJson, Folder, Quiet
from fedgraft.interface.progress import Progress

app = typer.Typer(**SETTINGS)


@app.command()
def resume(
    folder: Folder,
    before: Annotated[
        bool,
        typer.Option("--before", help="From the checkpoint before the last one, such as when a model was spoiled."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Take a run up where it stopped; it ends with the same bits as if it never had."""
    experiment = stored_experiment(Store.open(folder))
    if federated.is_federated(folder):
        with resumable(folder):
            show_summary(federated.resume_on(folder, before, quiet), folder, as_json)
        return
    portable.begin_again(experiment.runtime)
    with resumable(folder), Progress.of(experiment, quiet) as progress:
        summary = resume_run(folder, progress, before)
    show_summary(summary, folder, as_json)
