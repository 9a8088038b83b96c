"""Arguments and options that several commands have, and how a command prints."""

import json
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from signal import SIGINT
from typing import Annotated, Any, Final

import typer
import typer.core

from fedgraft.errors import MachineError, memory_shortage, printable
from fedgraft.runtimes.workers import signals

typer.core.HAS_RICH = False  # help is plain text, in which typer would escape "[required]" as for rich
SETTINGS: Final[dict[str, Any]] = {
    "no_args_is_help": True,
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""Of every typer app."""

Recipe = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A recipe's name ('fedgraft list recipes') or a TOML file.")
]
Changes = Annotated[
    list[str] | None,
    typer.Argument(metavar="SECTION.KEY=VALUE", help="Overrides, such as selector.name=oort budget.bytes=2MB."),
]
Seed = Annotated[int | None, typer.Option(help="Seed of all randomness; equal seeds give equal bits.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, all else on stderr.")]
Track = Annotated[
    list[str] | None,
    typer.Option(metavar="tensorboard|mlflow|wandb", help="Follow the run there, too; once for each tracker."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Folder = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]
Folders = Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of finished runs.")]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label", metavar="NAME", help="What to call a folder, once for each, in their order. Default: its name."
    ),
]
AllowChangedData = Annotated[
    bool, typer.Option("--allow-changed-data", help="Answer from the run's data as they are now, changed as they are.")
]
DataRoot = Annotated[
    Path | None, typer.Option("--data-root", metavar="DIR", help="Where the run's data are now, if they have moved.")
]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="METRIC=VALUE", help="Score for bytes to target, such as rmse=0.95. Default: best, plus 0.2 %."
    ),
]


def say(line: str, mark: str = "") -> None:
    """Print a line for people, on standard error; a `mark` before it is red."""
    from rich.console import Console  # `--help` and `show` need none of it
    from rich.text import Text

    text = Text.assemble((mark, "red"), " " * bool(mark), line if mark else printable(line))
    Console(stderr=True, highlight=False, soft_wrap=True).print(text)


def print_json(value: Any) -> None:
    """Print one JSON object, on standard output."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")


def print_table(headings: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table for people, on standard output; without headings they are not shown. None is a dash."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_header=any(headings))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text("-" if each is None else printable(str(each))) for each in row))
    Console(highlight=False).print(table)


def load(module: str) -> Any:
    """Return a module by its name. Raises `MachineError` where it cannot be imported."""
    try:
        return import_module(module)
    except KeyboardInterrupt as error:  # which typer would take for its own
        raise signals.Terminated(SIGINT) from error
    except (ImportError, OSError, MemoryError, SystemError) as error:  # the last of a library that lacks memory
        why = memory_shortage(error) or " ".join(str(error).split())
        raise MachineError(f"fedgraft cannot be loaded: {why}.") from error
