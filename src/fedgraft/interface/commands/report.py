"""Write one HTML file: curves, bytes, who was chosen when, scores per client, baselines, a table."""

from pathlib import Path
from typing import Annotated

import typer

from fedgraft.interface.commands import options
from fedgraft.reports.pages.html_report import write_report
from fedgraft.reports.stored.seed_groups import runs_in
from fedgraft.reports.stored.stored_runs import COSTS


def report(
    folders: options.Folders,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The HTML file; it opens offline.")],
    target: options.Target = None,
    title: Annotated[str, typer.Option(help="The page's heading.")] = "fedgraft report",
    representations: Annotated[
        bool, typer.Option(help="Show what each model tells apart (t-SNE); loads the runs' data again.")
    ] = False,
    classes: Annotated[
        bool | None,
        typer.Option(
            "--classes/--no-classes",
            help="Show how well each class is told and what it is taken for; loads the runs' data again. Default: "
            "where that takes less than a minute and the data are here.",
        ),
    ] = None,
    against: Annotated[
        str, typer.Option(metavar="|".join(COSTS), help="What the first figure shows scores against.")
    ] = "rounds",
    labels: options.Labels = None,
    allow_changed_data: options.AllowChangedData = False,
    data_root: options.DataRoot = None,
    as_json: options.AsJson = False,
) -> None:
    """Write one HTML file: curves, bytes, who was chosen when, who was late, scores per client, baselines, a table."""
    named = labels or []
    write_report(folders, out, target, title, representations, against, data_root, allow_changed_data, named, classes)
    options.say(f"Report in {out}")
    if as_json:
        options.print_json({"file": str(out), "runs": sum(len(runs_in(folder)) for folder in folders)})
