"""The command line: which commands there are, what every one of them takes, and how each ends.

A command's module is imported when the command is run: `--help` needs no torch, which takes seconds to load.
"""

import ast
import logging
import os
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from signal import SIGINT
from typing import Annotated, Any

import click
import typer
from click.shell_completion import CompletionItem
from typer.core import TyperGroup

from fedgraft.errors import (
    AllClientsFailedError,
    BudgetError,
    FedgraftError,
    InputError,
    Interrupted,
    MachineError,
    memory_shortage,
    printable,
    require_one_of,
    unknown,
)
from fedgraft.experiment.recipes.recipe_files import recipes
from fedgraft.interface.commands.options import SETTINGS, load, say
from fedgraft.runtimes.workers import signals

FAILED, BAD_INPUT, BUDGET_TOO_SMALL, BY_SIGNAL = 1, 2, 3, 128
"""Exit codes; 0 is success. One that a signal ended has `BY_SIGNAL` and its number: 130 for Ctrl-C, 143 for SIGTERM."""
COMMANDS = (
    *("run", "resume", "predict", "export", "serve", "compare", "report", "study", "advise", "list", "show", "recipe"),
    *("shard", "federation", "node", "policy", "privacy", "attack", "audit", "trust"),
)
"""Every command, and the module of `interface.commands` that holds it: its function of that name, or its `app`."""


TAKE_RECIPES = ("run", "show", "shard")
"""Commands whose first argument is a recipe, or its file."""


LEVELS = ("debug", "info", "warning", "error")


def completed(names: Iterable[str], begun: str, about: Callable[[str], str]) -> list[CompletionItem]:
    """Return the names that begin like a word, each with what it is."""
    return [CompletionItem(name, help=about(name)) for name in names if name.startswith(begun)]


class RecipeFirst(click.Command):
    """Stands for a command while its first argument is completed: the command itself would be imported."""

    def __init__(self, name: str, command: Callable[[], Any]) -> None:
        super().__init__(name, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
        self._command = command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the recipes, and files, that begin like this; or the command's options."""
        if incomplete.startswith("-"):
            items: list[CompletionItem] = self._command().shell_complete(ctx, incomplete)
            return items
        known = {**recipes(), **{str(path): "a recipe file" for path in sorted(Path().glob("*.toml"))}}
        return completed(known, incomplete, known.__getitem__)


class Commands(TyperGroup):
    """The commands, each imported when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order in which they are listed."""
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None for a name that is none."""
        if cmd_name not in COMMANDS:
            return None
        module = load(_module(cmd_name))
        if (made := getattr(module, "app", None)) is None:
            made = typer.Typer(**SETTINGS)
            made.command()(getattr(module, cmd_name))
        command = typer.main.get_command(made)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that arguments begin with. Raises `InputError` with the nearest right name."""
        if ctx.resilient_parsing:  # a word is completed
            if len(args) == 1 and args[0] in TAKE_RECIPES:
                return args[0], RecipeFirst(args[0], lambda: self.get_command(ctx, args[0])), []
            return super().resolve_command(ctx, args)
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise unknown("command", args[0], COMMANDS)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands, or options, that begin like this; none is imported."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return completed(COMMANDS, incomplete, _first_line)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, each with the first line of its file."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_line(name)) for name in COMMANDS])


app = typer.Typer(
    name="fedgraft",
    cls=Commands,
    help="""Train one graph neural network over graphs that may not leave their owners, and count every byte.

    Start with:  fedgraft run fedacs  (generated shops, no download), then  fedgraft report RUN -o report.html
    """,
    **{**SETTINGS, "add_completion": True},
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        print(version("fedgraft"))
        raise typer.Exit


@app.callback()
def every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="|".join(LEVELS), help="Show what is logged from this level on. Default: warning."),
    ] = None,
) -> None:
    """Take what every command takes."""
    if log_level is not None:
        show_from(log_level)


def show_from(level: str) -> None:
    """Show what is logged from a level on; at "debug" with tracebacks of clients that failed in this process.

    Clients are in this process with `runtime.workers = 0`; others' tracebacks stay in theirs.
    """
    require_one_of("--log-level", level, LEVELS)
    handler = logging.StreamHandler()
    handler.setFormatter(_Printable("%(levelname)s %(name)s: %(message)s"))
    log = logging.getLogger("fedgraft")
    log.handlers = [handler]
    log.setLevel(level.upper())


class _Printable(logging.Formatter):
    """Writes lines that do nothing but being shown, whatever a client or a data file is called."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).splitlines()))


def main() -> None:
    """Run a command; every error that is the user's to mend is one clear line and an exit code."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)  # for classes of the user's; last, so that no file there hides an installed package
    logging.getLogger("fedgraft.data").addFilter(_made_printable)
    try:
        app()
    except Interrupted as error:
        sys.exit(BY_SIGNAL + error.number)
    except SystemExit as error:
        if error.code == BY_SIGNAL + SIGINT:  # typer makes it of Ctrl-C, wherever that comes, and says nothing
            raise signals.Terminated(SIGINT) from error
        raise
    except BudgetError as error:
        _fail(error, BUDGET_TOO_SMALL)
    except (InputError, OSError) as error:
        _fail(error, BAD_INPUT)
    except FedgraftError as error:
        _fail(error, FAILED)
    except Exception as error:
        if not memory_shortage(error):
            raise
        _fail(MachineError(f"There is not enough memory. {error}".rstrip()), FAILED)


def _module(command: str) -> str:
    return f"fedgraft.interface.commands.{command}"


def _first_line(command: str) -> str:
    """Return the first line of a command's file, which is not imported."""
    module_spec = find_spec(_module(command))
    assert module_spec is not None
    source = module_spec.loader.get_source(_module(command))  # type: ignore[union-attr]
    return (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]


def _fail(error: Exception, code: int) -> None:
    text = str(error).strip()
    lines = text.split("\n") if isinstance(error, AllClientsFailedError) else [text]  # a line for each client
    say("\n".join(map(printable, lines)), "error:")
    sys.exit(code)


def _made_printable(record: logging.LogRecord) -> bool:
    """Have a note on data, which may hold their names, be one line that can be shown."""
    record.msg, record.args = printable(record.getMessage()), None
    return True
