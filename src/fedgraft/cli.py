"""The command line: `fedgraft run`, `resume`, `predict`, `compare`, `report`, `study`, `list`, `show`."""

import json
import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedgraft import experiment as experiments
from fedgraft.errors import BudgetError, FedgraftError, InputError
from fedgraft.runner import Interrupted, execute
from fedgraft.runner import resume as resume_run

DONE, FAILED, BAD_INPUT, BUDGET_TOO_SMALL, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""

app = typer.Typer(
    name="fedgraft",
    help="Train one graph neural network over graphs that may not leave their owners, and count every byte.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console(stderr=True)

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Overrides, such as selector.name=oort budget.bytes=2MB."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, all else on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
