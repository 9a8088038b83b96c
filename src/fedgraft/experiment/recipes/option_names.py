"""Options as a recipe names them, `data.ratings`, where a class speaks of itself, `Table.ratings`."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fedgraft.contracts.option_groups import settable
from fedgraft.errors import InputError

LOG = logging.getLogger("fedgraft.data")


def as_in_recipes(text: str, classes: Mapping[str, type[Any]]) -> str:
    """Return a text that names options of classes with the sections of a recipe that the classes are of.

    Args:
        text: such as "Table.low must be below Table.high = 1.0; got 5.0."
        classes: {section: class}; of one class in several sections the first counts.
    """
    for section, cls in classes.items():
        options = "|".join(settable(cls))
        text = re.sub(rf"\b{cls.__name__}\.({options})\b", rf"{section}.\1", text) if options else text
    return text


@contextmanager
def named_as_in_recipes(classes: Mapping[str, type[Any]]) -> Iterator[None]:
    """Raise an `InputError` from in here, and log notes on data, with options as recipes name them."""

    def rename(record: logging.LogRecord) -> bool:
        record.msg, record.args = as_in_recipes(record.getMessage(), classes), ()
        return True

    LOG.addFilter(rename)
    try:
        yield
    except InputError as error:
        text = as_in_recipes(str(error), classes)
        if text == str(error):
            raise
        raise InputError(text) from error
    finally:
        LOG.removeFilter(rename)
