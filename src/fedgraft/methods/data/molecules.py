"""Made-up assays of molecules, for demonstrations and tests of graph classification without any download."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from fedgraft.contracts.data import ClientData, Clients
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import PositiveInt, Proportion
from fedgraft.contracts.values import Indices
from fedgraft.domains.graphs.shards import GraphShard, check_labels, split_graphs, tidy_edges
from fedgraft.errors import require

Floats = NDArray[np.float64]

ELEMENTS = ("C", "N", "O", "S", "F", "Cl", "Br", "P", "I", "Si", "B", "Se")
"""What an assay's alphabet is drawn from; the first is in each, as the one most atoms are of."""
CLASSES = (("inactive", "active"), ("inactive", "weak", "active"))

MOTIFS: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = (
    ("000", ((0, 1), (1, 2), (2, 0))),
    ("0010", ((0, 1), (1, 2), (2, 3), (3, 0))),
    ("00100", ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))),
    ("000000", ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0))),
    ("022", ((0, 1), (0, 2))),
    ("0111", ((0, 1), (0, 2), (0, 3))),
    ("00000000", ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (5, 6), (6, 7), (7, 4))),
)
"""Rings of 3 to 6 atoms, two functional groups, two rings that share a bond: each atom's place in the assay's alphabet,
then the bonds. The first atom is bound to the skeleton."""
RATE = 0.5
"""Mean number of each motif in a molecule: some have none, few have more than two."""
STRAIGHT = 0.75
"""Share of a skeleton's atoms that continue the chain; the others branch off further back."""
USUAL = 0.8
"""Share of atoms of the element that their place calls for; the others are of any."""
MEANS, SPREAD = (20.0, 80.0), 10.0
"""In which the mean of an assay's numbers is drawn; their standard deviation."""
EVEN = 10.0
"""Of the Dirichlet distribution of class sizes: mostly within a factor of two of each other."""


@dataclass(frozen=True)
class Molecules(ClientData[GraphShard]):
    """A generator of assays: molecules with skeletons, rings and functional groups; a client is an assay of its own.

    Every client has an alphabet of its own, so one-hot columns differ in number and meaning, and two or three classes.
    A molecule's activity is a weighted sum of its motifs plus one of its elements; the motifs' weights are in part the
    same for all assays. So structure learnt elsewhere can help here, while features do not line up.

    Source: none; orders of magnitude (atoms, elements, two classes) after the chemical TU sets.
    Differs: nothing known. No chemistry: valences are not kept.

    Args:
        clients: number of assays, >= 1.
        graphs: molecules per assay, >= 10.
        nodes: mean number of atoms of a skeleton, >= 2; motifs add about 16 on average.
        kinds: most elements of an assay, 3..12; assays have 3, 4 ... of them in turn.
        classes: most classes of an assay, 2 or 3; assays have two and three in turn.
        elements: share of the activity's variance that is in the elements and not in the motifs, in [0, 1].
        own: share of the motifs' weights' variance that is an assay's own, in [0, 1]; 0 = all assays agree.
        noise: share of labels that are drawn at random, in [0, 1]; of numbers, of their variance that is noise.
        labels: "classes", for the task `graph`; or "numbers", for `graph_regression`, which sets it: the activity
            itself, with a mean in 20..80 that is the assay's own, and a standard deviation of 10.
    """

    task: ClassVar[str] = "graph"
    other_tasks: ClassVar[Mapping[str, Mapping[str, Any]]] = {"graph_regression": {"labels": "numbers"}}

    clients: PositiveInt = 7
    graphs: Annotated[int, Ge(10)] = 300
    nodes: Annotated[int, Ge(2)] = 10
    kinds: Annotated[int, Interval(ge=3, le=len(ELEMENTS))] = 9
    classes: int = 3
    elements: Proportion = 0.3
    own: Proportion = 0.2
    noise: Proportion = 0.05
    labels: Literal["classes", "numbers"] = "classes"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.classes in (2, 3), "Molecules.classes", "2 or 3", self.classes)

    def clients_of(self, seed: int) -> Clients[GraphShard]:
        """Return the assays; `seed` makes the molecules as well as their split."""
        shared = generator(seed, "molecules").normal(size=len(MOTIFS))
        names = [_name(client) for client in range(self.clients)]
        return Clients(names, lambda client: self._assay(seed, client, shared))

    def _assay(self, seed: int, client: int, shared: Floats) -> GraphShard:
        g = generator(seed, "assay", client=client)
        counts = g.poisson(RATE, (self.graphs, len(MOTIFS)))
        skeleton = 2 + g.poisson(self.nodes - 2, self.graphs)
        graph, place, bonds = _molecules(g, skeleton, counts)
        order = np.argsort(graph, kind="stable")
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        sizes = np.bincount(graph, minlength=self.graphs)
        edges, _ = tidy_edges(number[bonds], sizes, "bond")

        kinds = 3 + client % (self.kinds - 2)
        alphabet = np.concatenate([[0], g.permutation(np.arange(1, len(ELEMENTS)))[: kinds - 1]])
        column = g.permutation(kinds)  # of each letter
        letter = np.where(g.random(len(place)) < USUAL, place, g.integers(0, kinds, len(place)))[order]
        names: list[str] = [""] * kinds
        for which, element in enumerate(alphabet):
            names[column[which]] = ELEMENTS[element]

        weights = np.sqrt(1 - self.own) * shared + np.sqrt(self.own) * g.normal(size=len(MOTIFS))
        occurring = np.zeros((self.graphs, kinds))
        np.add.at(occurring, (np.repeat(np.arange(self.graphs), sizes), letter), 1)
        structure = _standard(counts @ weights)
        features = _standard((occurring / sizes[:, None]) @ g.normal(size=kinds))
        activity = np.sqrt(1 - self.elements) * structure + np.sqrt(self.elements) * features
        classes: tuple[str, ...] = CLASSES[client % (self.classes - 1)] if self.labels == "classes" else ()
        label = self._labels(g, activity, len(classes)) if classes else self._numbers(g, activity)
        shard = GraphShard(
            name=_name(client),
            sizes=sizes,
            edges=edges,
            kind=column[letter].astype(np.int32),
            kinds=kinds,
            attributes=np.zeros((len(place), 0), np.float32),
            label=label,
            classes=classes,
            split=np.zeros(self.graphs, np.int8),
            ids=np.arange(1, self.graphs + 1).astype(object),
            kind_names=tuple(names),
        )
        check_labels(shard)
        return replace(shard, split=split_graphs(label, generator(seed, "split", client=client)))

    def _labels(self, g: np.random.Generator, activity: Floats, classes: int) -> Indices:
        """Classes by rank of activity, of uneven sizes, some of them replaced by chance."""
        bounds = np.cumsum(g.dirichlet(np.full(classes, EVEN)))[:-1]
        rank = np.empty(len(activity))
        rank[np.argsort(activity, kind="stable")] = np.arange(len(activity)) / len(activity)
        label = np.searchsorted(bounds, rank, side="right")
        chance = g.random(len(label)) < self.noise
        return np.where(chance, g.integers(0, classes, len(label)), label)

    def _numbers(self, g: np.random.Generator, activity: Floats) -> Floats:
        """Activities with some noise, around a mean of the assay's own."""
        noise = g.normal(size=len(activity))
        numbers = np.sqrt(1 - self.noise) * activity / activity.std() + np.sqrt(self.noise) * noise
        return np.asarray(g.uniform(*MEANS) + SPREAD * numbers)


def _name(client: int) -> str:
    return f"assay-{client + 1}"


def _molecules(g: np.random.Generator, skeleton: Indices, counts: Indices) -> tuple[Indices, Indices, Indices]:
    """(graph of each atom, its place in the alphabet, bonds [2, m] between atoms), skeletons first, then motifs."""
    starts = np.cumsum(skeleton) - skeleton
    graph = np.repeat(np.arange(len(skeleton)), skeleton)
    atom = np.arange(len(graph))
    inside = atom - starts[graph]
    back = np.minimum(g.geometric(STRAIGHT, len(graph)), inside)
    bonds = [np.stack([atom, atom - back])[:, inside > 0]]
    graphs, places, total = [graph], [np.zeros(len(graph), np.int64)], len(graph)
    for (letters, inner), count in zip(MOTIFS, counts.T, strict=True):
        of = np.repeat(np.arange(len(skeleton)), count)
        first = total + len(letters) * np.arange(len(of))
        bonds += [np.stack([first + a, first + b]) for a, b in inner]
        bonds.append(np.stack([first, starts[of] + (g.random(len(of)) * skeleton[of]).astype(np.int64)]))
        graphs.append(np.repeat(of, len(letters)))
        places.append(np.tile([int(letter) for letter in letters], len(of)))
        total += len(letters) * len(of)
    return np.concatenate(graphs), np.concatenate(places), np.concatenate(bonds, axis=1)


def _standard(values: Floats) -> Floats:
    spread = values.std()
    return np.asarray((values - values.mean()) / (spread if spread > 0 else 1.0))
