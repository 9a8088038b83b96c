"""What a user's own typed graph is refused for, or noted for, beyond single cells of its tables."""

import numpy as np
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.data.typed_graph import TypedGraph
from helpers.toy_typed import own_tables


def test_two_types_that_are_said_to_have_edges_have_some() -> None:
    tables = own_tables()
    tables["edges"]["venue-paper"] = tables["edges"]["venue-paper"].iloc[:0]
    with pytest.raises(InputError, match=r"TypedGraph\.edges\.venue-paper: no rows; at least one is needed"):
        TypedGraph(target="paper", **tables).load(1)
    tables = own_tables()
    tables["edges"]["paper-paper"] = pd.DataFrame({"source": ["p0"], "target": ["p0"]})
    with pytest.raises(InputError, match="there is no edge paper-paper between two nodes; leave these edges out"):
        TypedGraph(target="paper", **tables).load(1)


def test_no_column_drowns_the_others(caplog: pytest.LogCaptureFixture) -> None:
    tables = own_tables()
    tables["nodes"]["paper"] = tables["nodes"]["paper"].assign(year=[1999 + k % 3 for k in range(40)], bias=0.1)
    shards = TypedGraph(target="paper", **tables).load(1)
    year = np.concatenate([shard.features for shard in shards])[:, 1]
    assert (year.mean(), year.std()) == pytest.approx((0, 1), abs=1e-5)
    assert "'pages', 'year', 'bias': brought to mean 0 and variance 1 over all clients" in caplog.text


def test_what_cannot_be_read_as_a_list_of_files_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"TypedGraph\.nodes cannot be read: \{paper=p\.csv\}; names of files need quo"
    ):
        TypedGraph(target="paper", nodes="{paper=p.csv}", edges="edges.csv")
