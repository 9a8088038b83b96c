"""Run a study, a paper's or your own: methods x seeds on equal footing."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fedgraft.errors import InputError
from fedgraft.interface.commands.options import AsJson, print_json, say
from fedgraft.reports.studies import cost_figures, running
from fedgraft.reports.studies import study as studies
from fedgraft.reports.studies.layouts import tables, write_page
from fedgraft.reports.studies.study import StoredResults


def study(
    name: Annotated[str, typer.Argument(metavar="STUDY", help="A study ('fedgraft list studies'), or a TOML file.")],
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder that holds the data sets' folders, if it needs any.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Finished cells. Default: studies/NAME.")] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Paired seeds: 1..SEEDS, or so many from a panel's first_seed on.")
    ] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time, one thread each.")] = 2,
    match: Annotated[
        str, typer.Option(metavar="NAMES", help="Run only cells of such names, e.g. 'chem-gin-*' (quote it).")
    ] = "*",
    on: Annotated[
        str, typer.Option(metavar="ray[:ADDRESS]", help="A Ray cluster that runs the cells, as its CPUs allow.")
    ] = "",
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Markdown page whose tables to write.")] = None,
    pictures: Annotated[
        bool, typer.Option(help="Draw accuracy against costs, a picture a setting, and show them on the page.")
    ] = False,
    pack: Annotated[
        bool, typer.Option(help="Put the finished cells into one file. New cells of a packed folder join it.")
    ] = False,
    results: Annotated[Path | None, typer.Option(metavar="FILE", help="One JSON file with all results.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a study, a paper's or your own: methods x seeds on equal footing. Started again, it runs what is missing."""
    definition = studies.load(name)
    if data is None and (needed := definition.read):
        raise InputError(f"--data DIR must be given, the folder that holds the folders of {', '.join(needed)}.")
    folder = out or Path("studies") / definition.name
    if pictures:
        cost_figures.check(definition)
    try:
        running.run(definition, data or Path(), folder, seeds, jobs, say, match, on)
    finally:
        done = running.results(definition, folder, seeds)
        if page is not None and done:
            write_page(definition, done, seeds, page, folder / "pictures")
        if results is not None and done:
            lines = [json.dumps({"cell": cell.key, **result}) for cell, result in done.items()]
            results.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    if pictures:
        for line in cost_figures.draw_all(definition, done, seeds, folder / "pictures"):
            say(line)
        if page is not None and done:
            write_page(definition, done, seeds, page, folder / "pictures")
    stored = StoredResults(folder)
    if (pack or stored.path.is_file()) and (moved := stored.pack()):
        say(f"{moved} results are now in {stored.path}.")
    if as_json:
        print_json({"study": definition.name, "cells": {cell.key: result for cell, result in done.items()}})
    elif page is None:
        print(tables(definition, done, seeds))
