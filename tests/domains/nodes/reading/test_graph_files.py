"""Files of whole graphs: what networkx wrote is what is read, as tables of nodes and edges would be."""

import gzip
from pathlib import Path

import networkx as nx
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.data.nodes import Nodes

WRITERS = {".graphml": nx.write_graphml, ".gexf": nx.write_gexf, ".gml": nx.write_gml}


def graph() -> nx.Graph:
    ring = nx.cycle_graph(12)
    for node in ring:
        ring.nodes[node].update(kind=("bank", "shop")[node % 2], x=node / 2, y0=node % 3)
    nx.set_edge_attributes(ring, 2.0, "weight")
    return nx.relabel_nodes(ring, {node: f"00{node}" for node in ring})


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_graph_is_read_as_its_tables_are(suffix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / f"g{suffix}"
    WRITERS[suffix](graph(), path)
    nodes = pd.DataFrame([{"node": node, **data} for node, data in graph().nodes(data=True)])
    edges = pd.DataFrame([{"source": one, "target": other} for one, other in graph().edges])
    wanted = Nodes(nodes, edges, label="kind", clients=2)
    read = Nodes(path, label="kind", clients=2)
    assert (read.read().columns.frame()[["x", "y0"]] == wanted.read().columns.frame()[["x", "y0"]]).all(axis=None)
    assert read.read().whole.ids.tolist() == nodes["node"].tolist()
    assert read.read().whole.senders.tolist() == wanted.read().whole.senders.tolist()
    assert any("Columns of edges that are not read: " in note for note in read.read().notes)
    assert Nodes.options_from(str(path)) == {"nodes": str(path)}


def test_it_may_be_compressed(tmp_path: Path) -> None:
    nx.write_graphml(graph(), tmp_path / "g.graphml")
    (tmp_path / "h.graphml.gz").write_bytes(gzip.compress((tmp_path / "g.graphml").read_bytes()))
    assert len(Nodes(tmp_path / "h.graphml.gz", label="kind").read().whole.ids) == 12


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "g.graphml").write_text("<graph")
    (tmp_path / "e.edgelist").write_text("a b\nb c\n")
    with pytest.raises(InputError, match=r"g\.graphml cannot be read as graphml by networkx \(ParseError"):
        Nodes(tmp_path / "g.graphml").read()
    with pytest.raises(InputError, match=r"Nodes\.nodes: no file .*missing\.gml"):
        Nodes(tmp_path / "missing.gml").read()
    with pytest.raises(InputError, match=r"Nodes\.nodes: no column 'label' \(Nodes\.label\).* Columns: node"):
        Nodes(tmp_path / "e.edgelist").read()
    with pytest.raises(InputError, match=r"Nodes\.edges must be left out: .* holds nodes and edges"):
        Nodes(tmp_path / "e.edgelist", tmp_path / "e.csv")
