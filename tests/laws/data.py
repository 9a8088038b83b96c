"""Laws of data sets and of those whose sites read tables of their own."""

import re
from typing import Any

from fedgraft.contracts.abilities.predicting import PredictingTask
from fedgraft.contracts.data import ClientTables, Data
from fedgraft.contracts.parts import answering
from fedgraft.experiment.recipes import discovery
from fedgraft.testing import data as public
from fedgraft.testing.laws import Laws, expect

LAWS: Laws[Data[Any]] = Laws()
PREDICT_OPTIONS = {"out", "table", "client", "help"}
"""Options of `fedgraft predict`, which no table can have the name of."""


def laws(cls, /, **options):
    """The laws of a data set with these options, to be called one by one."""
    return [*public.laws(cls, **options), *LAWS.held(cls, lambda: cls(**options))]


@LAWS.where(lambda cls: issubclass(cls, ClientTables) and cls.own_tables)
def every_table_of_an_own_shard_has_a_name_of_its_own(data: Data[Any]) -> None:
    """Name tables as no question, and no option of `fedgraft predict`, is named."""
    own = data.own_tables
    tables = [*answering(discovery.find("tasks", data.task), PredictingTask).asks, *own]
    expect(own, "there must be a table", own)
    expect(len({*tables}) == len(tables), "tables and questions must have different names", tables)
    expect(not {*tables} & PREDICT_OPTIONS, f"no table may be named as one of {sorted(PREDICT_OPTIONS)}", tables)
    fit = all(re.fullmatch(r"[a-z]+(-[a-z]+)*", table) for table in tables)
    expect(fit, "names of tables must be of small letters and single dashes", tables)


@LAWS.where(lambda cls: issubclass(cls, ClientTables) and cls.own_tables)
def every_table_of_an_own_shard_has_a_keyword_of_its_own(data: Data[Any]) -> None:
    """Name further tables apart, also without the name of the first one before theirs."""
    first, *others = data.own_tables
    keywords = [other.removeprefix(f"{first}-") for other in others]
    expect(len({*keywords}) == len(keywords), "tables must have different keywords", keywords)
