"""Schemas of tables as data: which columns a table has, what each holds, and what a data set's options call them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

import pandas as pd

from fedgraft.errors import InputError
from fedgraft.tables.table_files import FOUND_OUT, TextForm

Kind: TypeAlias = Literal["id", "class", "number", "split", "time", "features"]
"""What a column holds; "features" stands for several columns, those that an option names or all others."""
Names: TypeAlias = Mapping[str, Any]
"""{role: the user's name of that column}; of "features" a tuple of names, or None for all other columns.

`FORMS` may be among the roles: how files of the tables are written.
"""

FORMS: Final = "(forms)"
"""In place of a role: the `Forms` of all tables."""

ALL_OTHERS: Final = None
"""In place of names of features: every column without another role."""


@dataclass(frozen=True)
class Forms:
    """How files of tables are written: what is said of all of them, and {table: names of columns without a header}."""

    every: TextForm = FOUND_OUT
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, table: str) -> TextForm:
        """Return what is said of a table."""
        return replace(self.every, columns=self.columns.get(table, ()))


def form_of(names: Names, table: str) -> TextForm:
    """Return how files of a table are written, as its user says with the names of columns."""
    forms: Forms = names.get(FORMS) or Forms()
    return forms.of(table)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        role: what it says of a row, the option of a data set that names it, and its usual name.
        kind: what it holds.
        needed: whether it must be there, or only where an option calls it otherwise than usual.
        silent: whether the name "" says that it is not read.
        usual: its usual name where that is not the role.
        option: what errors say in place of the option of a data set, where none names it.
        read_by: the option by which it is read where it is not.
    """

    role: str
    kind: Kind = "id"
    needed: bool = True
    silent: bool = False
    usual: str = ""
    option: str = ""
    read_by: str = ""

    @property
    def usual_name(self) -> str:
        """The name of the column where no option says another."""
        return self.usual or self.role


@dataclass(frozen=True)
class Table:
    """A table of a domain.

    Args:
        name: the option of a data set that gives it, such as "nodes".
        columns: in the order in which a missing one is told.
        may_be_empty: whether no row at all is fine.
        rest: whether columns without a role are kept, too; they are where the features are all other columns.
        folder: what the files of a folder are: "clients", one each; "parts" of one table, which have the same columns;
            or "", where no folder is read.
    """

    name: str
    columns: tuple[Column, ...]
    may_be_empty: bool = False
    rest: bool = False
    folder: Literal["", "clients", "parts"] = ""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of its columns, in order."""
        return tuple(column.role for column in self.columns)

    def column(self, role: str) -> Column:
        """Return the column of a role."""
        return next(column for column in self.columns if column.role == role)

    def names(self, options: object = None, **renamed: Any) -> dict[str, Any]:
        """Return {role: name} of the columns: as `renamed` says, else as a data set's option does, else as usual."""
        usual = {column.role: ALL_OTHERS if column.kind == "features" else column.usual_name for column in self.columns}
        return {role: renamed.get(role, getattr(options, role, name)) for role, name in usual.items()}

    def check(self, owner: str, names: Names, only: Collection[str] | None = None) -> None:
        """Raise `InputError` where one column has two roles, of all or of `only` these; `owner` as of `reader.read`."""
        roles: list[tuple[str, str]] = []
        for column in self.columns:
            name = names[column.role]
            if only is not None and column.role not in only:
                continue
            option = column.option.removeprefix("data.") if column.option.startswith("data.") else column.role
            if column.kind == "features":
                roles += [(option, each) for each in name or ()]
            elif name or not column.silent:
                roles.append((option, name))
        check_roles(owner, roles)

    def wanted(
        self, owner: str, names: Names, needed: Collection[str] | None = None, only: Collection[str] | None = None
    ) -> tuple[dict[str, str], list[str]]:
        """Return ({option: column} that must be there, columns that may be); arguments as of `reader.read`."""
        wanted: dict[str, str] = {}
        optional: list[str] = []
        for column in self.columns:
            name = names[column.role]
            if (only is not None and column.role not in only) or (column.silent and not name):
                continue
            if column.kind == "features":
                wanted |= {f"{owner}.{column.role}: {each}": each for each in name or () if needed is None}
            elif (column.needed or name != column.usual_name) if needed is None else column.role in needed:
                wanted[column.option or f"{owner}.{column.role}"] = name
            else:
                optional.append(name)
        return wanted, optional

    def not_read(self, columns: Sequence[str], names: Names, present: Collection[str]) -> str:
        """Return the note on columns that are not read, with the options that could name one of them.

        These are of roles that none of the columns that are `present` has.
        """
        roles, by = [], dict[str, str]()
        for column in self.columns:
            name = names[column.role]
            is_free = name is not ALL_OTHERS if column.kind == "features" else name not in (*present, *columns)
            if is_free and column.role.isidentifier() and not column.option:
                roles.append(f"data.{column.role}")
            elif column.kind != "features" and name in columns and column.read_by:
                by[name] = f" ({column.read_by} reads it)"
        would = f"; {', '.join(roles)} would read one" if roles else ""
        listed = ", ".join(name + by.get(name, "") for name in columns)
        return f"Columns of {self.name} that are not read: {listed}{would}."

    def usual(self, names: Names) -> dict[str, str]:
        """Return {the user's name: usual name} of the columns, as tables of questions are renamed by."""
        named = [column for column in self.columns if column.kind != "features" and names[column.role]]
        return {names[column.role]: column.usual_name for column in named}


def check_roles(owner: str, roles: Iterable[tuple[str, str]]) -> None:
    """Raise `InputError` where a column of one table is named twice, by (option of the owner, column)."""
    taken: dict[str, str] = {}
    for option, column in roles:
        if taken.get(column) == option:
            raise InputError(f"{owner}.{option} must name each column once; got {column!r} twice.")
        if column in taken:
            raise InputError(f"{owner}.{option} must be another column than {owner}.{taken[column]}; got {column!r}.")
        taken[column] = option


def check_said(features: Sequence[str] | None, class_names: Sequence[str] | None) -> None:
    """Raise `InputError` unless a site's recipe names columns of features and classes; None: labels are numbers."""
    if features is None or (class_names is not None and not class_names):
        lacking = "data.features, the columns of features," if features is None else "task.class_names"
        raise InputError(f"The recipe must say {lacking} in order: no site knows the tables of the others.")


def check_one_client(names: Sequence[str], where: str, name: str) -> None:
    """Raise `InputError` where a site's own table names other clients than its own, `name`."""
    if others := [each for each in names if each != name]:
        raise InputError(f"{where} names client {others[0]!r}; a site's own table is of client {name!r} alone.")


def renamed(tables: Mapping[str, pd.DataFrame], names: Mapping[str, Mapping[str, str]]) -> dict[str, pd.DataFrame]:
    """Return tables of questions with their columns named as tasks know them: {table: {the user's name: its}}.

    Raises `InputError` where two columns are the same to a task.
    """
    result = {}
    for name, table in tables.items():
        for own, column in (usual := names.get(name, {})).items():
            if own != column and {own, column} <= {*table.columns}:
                raise InputError(f"--{name}: columns {own!r} and {column!r} both say the {column}; one is needed.")
        result[name] = table.rename(columns=usual)
    return result


def with_text_names(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with text for names of columns."""
    named = table.set_axis([str(column).strip() for column in table.columns], axis=1)
    texts: dict[str, pd.Series] = {}
    for place, (name, dtype) in enumerate(zip(named.columns, named.dtypes, strict=True)):
        may_hold_bytes = pd.api.types.is_object_dtype(dtype) or isinstance(dtype, pd.ArrowDtype)
        if may_hold_bytes and (decoded := _decoded(named.iloc[:, place])) is not None:
            texts[str(name)] = decoded
    return named.assign(**texts) if texts and named.columns.is_unique else named


def _decoded(values: pd.Series) -> pd.Series | None:
    """Return bytes that are text in UTF-8 as text; None for anything else."""
    if pd.api.types.infer_dtype(values, skipna=True) != "bytes":
        return None
    try:
        return values.astype(object).map(lambda value: value.decode() if isinstance(value, bytes) else value)
    except UnicodeDecodeError:
        return values.astype(object).map(lambda value: str(value) if isinstance(value, bytes) else value)
