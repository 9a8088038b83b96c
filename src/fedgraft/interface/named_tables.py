"""Tables on the command line: `--NAME FILE` is short for `--table NAME=FILE`, whatever tables a run knows."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from fedgraft.errors import InputError
from fedgraft.interface import explained
from fedgraft.tables.table_files import Given, is_address, read_pipe

OPTION = "--table"


class TablesCommand(TyperCommand):
    """A command with the option `--table NAME=FILE`, where an option that it does not have names a table."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments, options that name tables spelled out."""
        known = {name: not getattr(each, "is_flag", False) for each in self.get_params(ctx) for name in each.opts}
        return super().parse_args(ctx, spelled_out(args, known))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """List the tables of every task that there is."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Tables by task, and one client's own tables (columns: 'fedgraft show TASK')"):
            formatter.write_dl(list(explained.tables().items()))


def spelled_out(arguments: Sequence[str], known: Mapping[str, bool]) -> list[str]:
    """Return arguments with `--table NAME=FILE` in place of `--NAME FILE` and `--NAME=FILE`.

    `known` is {option of the command: whether it takes a value}. Raises `InputError` where the file is missing.
    """
    spelled: list[str] = []
    rest = list(arguments)
    while rest:
        name, equals, value = (argument := rest.pop(0)).partition("=")
        if argument == "--":
            return [*spelled, argument, *rest]
        if name in known or not argument.startswith("--"):
            spelled.append(argument)
            if known.get(name) and not equals:
                spelled += rest[:1]
                del rest[:1]
            continue
        if not equals and rest and rest[0] not in known and not rest[0].startswith("--"):
            value = rest.pop(0)
        if not value:
            raise InputError(f"{name} needs a value, the .csv or .parquet file of a table.")
        spelled += [OPTION, f"{name.removeprefix('--')}={value}"]
    return spelled


def named_tables(texts: Iterable[str]) -> dict[str, Given | None]:
    """Return {name: file} of texts `NAME=FILE`; of a pipe, such as /dev/stdin, the table that comes out of it."""
    tables: dict[str, Given | None] = {}
    for text in texts:
        name, _, file = text.partition("=")
        if not name or not file:
            raise InputError(f"{OPTION} must be NAME=FILE; got {text!r}.")
        if name in tables:
            raise InputError(f"--{name} is given twice, {str(tables[name])!r} and {file!r}; give one file.")
        path = Path(file)
        if is_address(file):
            tables[name] = file
            continue
        tables[name] = read_pipe(path) if path.is_fifo() or path.is_char_device() else path
    return tables
