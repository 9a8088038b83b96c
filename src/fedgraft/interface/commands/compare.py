"""Put finished runs side by side: scores, bytes, what each paid until it reached a target score."""

from typing import Annotated

import typer
from rich.console import Console

from fedgraft.interface.commands.options import SETTINGS, AsJson, Folders, Target, print_json
from fedgraft.reports.comparison import compare as compare_runs
from fedgraft.reports.comparison import render as render_comparison
from fedgraft.reports.seed_groups import groups, runs_in
from fedgraft.reports.seed_groups import render as render_groups
from fedgraft.reports.stored_runs import COSTS

app = typer.Typer(**SETTINGS)


@app.command()
def compare(
    folders: Folders,
    target: Target = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="|".join(COSTS), help="Cost to the target that orders runs. Default: as given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put finished runs side by side: scores, bytes, what each paid until it reached a target score.

    Runs that differ in nothing but the seed are also shown as a group: means, spreads, and differences to the first
    group, paired by seed, with 95 % intervals. A folder of 'fedgraft run --seeds' stands for its runs.
    """
    runs = runs_in(folders)
    table, seeds = compare_runs(runs, target, against), groups(runs)
    if as_json:
        print_json({"runs": table, "groups": seeds})
        return
    Console().print(render_comparison(table, against=against))
    if seeds:
        Console().print(render_groups(seeds))
