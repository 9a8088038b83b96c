"""A client's test examples as questions, and the score of the answers, counted from the table of answers alone."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

Tables: TypeAlias = dict[str, pd.DataFrame]
Score: TypeAlias = Callable[[pd.DataFrame], float]


def ratings(shard: Any) -> tuple[Tables, Score]:
    rows = shard.rows("test")
    pairs = pd.DataFrame({"user": shard.user_ids[shard.user[rows]], "item": shard.item_ids[shard.item[rows]]})
    return {"pairs": pairs}, lambda found: rmse(found["rating"], shard.rating[rows])


def nodes(shard: Any) -> tuple[Tables, Score]:
    rows = shard.rows("test")
    return {"nodes": pd.DataFrame({"node": shard.ids[rows]})}, scored(shard, rows)


def typed_nodes(shard: Any) -> tuple[Tables, Score]:
    rows = shard.rows("test")
    return {"nodes": pd.DataFrame({"node": shard.ids[shard.target][rows]})}, scored(shard, rows)


def links(shard: Any) -> tuple[Tables, Score]:
    rows = np.flatnonzero(shard.split == 2)
    source, target = shard.graph.ids[shard.pairs[:, rows]]
    pairs = pd.DataFrame({"source": source, "target": target})
    return {"pairs": pairs}, lambda found: float(roc_auc_score(shard.edge[rows], found["score"]))


def graphs(shard: Any) -> tuple[Tables, Score]:
    rows = shard.rows("test")
    graph = np.repeat(np.arange(shard.graphs), shard.sizes)
    node = np.arange(shard.nodes) - shard.node_starts[graph]
    told = {"kind": np.array(shard.kind_names, object)[shard.kind]}
    told |= dict(zip(shard.attribute_names, shard.attributes.T, strict=True))
    every = pd.DataFrame({"graph": shard.ids[graph], "node": node, **told})
    target, source = shard.edges
    edges = pd.DataFrame({"graph": shard.ids[graph[source]], "source": node[source], "target": node[target]})
    asked = pd.DataFrame({"graph": shard.ids[rows]})
    kept = [table[table["graph"].isin(asked["graph"])] for table in (every, edges)]
    return {"graphs": asked, "nodes": kept[0], "edges": kept[1]}, scored(shard, rows)


def users(shard: Any) -> tuple[Tables, Score]:
    """Users alone: what they have taken is no answer, and so none of these has a score."""
    return {"users": pd.DataFrame({"user": shard.user_ids[:3]})}, lambda found: float("nan")


def labelled_edges(shard: Any) -> tuple[Tables, Score]:
    """Edges as they are, asked after the run: from more edges than they were scored by, and so without a score."""
    rows = np.flatnonzero((shard.split == 2) & (shard.ends[1] < shard.graph.own) & (shard.ends[1] >= 0))
    source, target = shard.ids[shard.ends[:, rows]]
    columns = {str(place): column for place, column in enumerate(shard.columns[rows].T)}
    edges = pd.DataFrame({"source": source, "target": target, **columns})
    return {"edges": edges}, lambda found: float("nan")


def scored(shard: Any, rows: np.ndarray) -> Score:
    """Accuracy where labels are classes, else the RMSE."""
    truth = shard.label[rows]
    if not shard.classes:
        return lambda found: rmse(found["prediction"], truth)
    return lambda found: float((found["class"] == np.array(shard.classes, object)[truth]).mean())


def rmse(answers: pd.Series, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((answers.to_numpy() - truth) ** 2)))


ASKED = {
    "rating": ratings,
    "node": nodes,
    "node_regression": nodes,
    "link": links,
    "graph": graphs,
    "graph_regression": graphs,
    "typed_node": typed_nodes,
    "ranking": users,
    "edge": labelled_edges,
}
