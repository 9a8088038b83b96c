"""Put finished runs side by side: scores, bytes, what each paid until it reached a target score."""

from typing import Annotated

import typer
from rich.console import Console

from fedgraft.interface.commands.options import AsJson, Folders, Labels, Target, print_json
from fedgraft.reports.stored.comparison import compared
from fedgraft.reports.stored.comparison import render as render_comparison
from fedgraft.reports.stored.seed_groups import group_rows, grouped, open_named
from fedgraft.reports.stored.seed_groups import render as render_groups
from fedgraft.reports.stored.stored_runs import COSTS


def compare(
    folders: Folders,
    target: Target = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="|".join(COSTS), help="Cost to the target that orders runs. Default: as given."),
    ] = None,
    labels: Labels = None,
    as_json: AsJson = False,
) -> None:
    """Put finished runs side by side: scores, bytes, what each paid until it reached a target score.

    Runs that differ in nothing but the seed are also shown as a group: means, spreads, and differences to the first
    group, paired by seed, with 95 % intervals. A folder of 'fedgraft run --seeds' stands for its runs.
    """
    runs = open_named(folders, labels or [])
    table, seeds = compared(runs, target, against), group_rows(grouped(runs))
    if as_json:
        print_json({"runs": table, "groups": seeds})
        return
    Console().print(render_comparison(table, against=against))
    if seeds:
        Console().print(render_groups(seeds))
