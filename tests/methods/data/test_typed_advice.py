"""What a user's own typed graph is refused for, or noted for, beyond single cells of its tables."""

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


def test_features_that_drown_others_are_noted(caplog: pytest.LogCaptureFixture) -> None:
    tables = own_tables()
    tables["nodes"]["paper"] = tables["nodes"]["paper"].assign(year=[1999 + k % 3 for k in range(40)], bias=0.1)
    TypedGraph(target="paper", **tables).load(1)
    (note,) = caplog.messages
    assert note.startswith("TypedGraph.nodes.paper: column 'year' is 2000 on average and differs by 0.82: as a feature")


def test_what_cannot_be_read_as_a_list_of_files_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"TypedGraph\.nodes cannot be read: \{paper=p\.csv\}; names of files need quo"
    ):
        TypedGraph(target="paper", nodes="{paper=p.csv}", edges="edges.csv")
