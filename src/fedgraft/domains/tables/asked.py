"""Questions and answers: whose is asked, and what the likeliest class is."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fedgraft.contracts.task_abilities import SHARE
from fedgraft.contracts.values import Indices
from fedgraft.domains.tables.rows import Rows
from fedgraft.errors import InputError, unknown
from fedgraft.wire.layouts import Array


def clients_said(rows: Rows, names: Sequence[str]) -> Indices:
    """Return the number of the client that each row of questions names in a column "client"; -1 for none.

    Args:
        rows: of questions.
        names: of all clients, in order.
    """
    said = np.full(len(rows), -1)
    if "client" not in rows:
        return said
    number = {name: each for each, name in enumerate(names)}
    for row, value in enumerate(rows["client"].values.tolist()):
        if pd.isna(value):
            continue
        # Whole numbers become floats where a table lacks some of them.
        name = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        if name not in number:
            raise InputError(f"{rows.row(row)}: {unknown('client', name, number)}")
        said[row] = number[name]
    return said


def likeliest(classes: Sequence[str], shares: Array) -> dict[str, Array]:
    """Return columns: the likeliest class, how likely it is, and how likely each class is.

    Args:
        classes: names.
        shares: float32 [asked, classes], predicted probabilities.
    """
    best, shares = shares.argmax(1), shares.astype(np.float64)
    return {
        "class": np.array(classes, dtype=object)[best],
        "probability": shares[np.arange(len(best)), best],
        **{f"{SHARE}{name}": shares[:, number] for number, name in enumerate(classes)},
    }
