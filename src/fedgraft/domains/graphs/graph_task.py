"""What tasks about whole graphs share: all but the kind of label, and what only classes can be asked."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fedgraft.contracts import (
    SCORED_SPLITS,
    Batch,
    ClassShares,
    Indices,
    LabelledTask,
    Labels,
    LayeredEncoder,
    Losses,
    NetworkEncoder,
    Objective,
    OwnInputs,
    Questions,
    Sums,
    Unit,
)
from fedgraft.contracts.abilities import PlainModel, PooledTask, PredictingTask
from fedgraft.contracts.ranges import NonNegativeInt, PositiveFloat, PositiveInt
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.edge_data.read_edges import ReadEdges, carried_by, note_unread
from fedgraft.domains.examples import scaled
from fedgraft.domains.graphs import pyg_objects
from fedgraft.domains.graphs.batches import Collator, GraphBatch, places
from fedgraft.domains.graphs.graph_reader import plain_graphs
from fedgraft.domains.graphs.model import HIDDEN, PERSONAL, SUBTREES, CountsModel, GraphModel, Together, Variant
from fedgraft.domains.graphs.shards import GraphShard, merge_shards
from fedgraft.domains.graphs.tables import split_graphs
from fedgraft.domains.graphs.weisfeiler_lehman import subtree_counts
from fedgraft.domains.labels.class_weights import weighted
from fedgraft.domains.labels.known import groups_of
from fedgraft.errors import InputError, require
from fedgraft.nn.layers import device_of
from fedgraft.wire.layouts import Array, Arrays

MOST_NODES = 50_000
"""Nodes of one batch of held-out graphs (ours): a few tens of megabytes of activations."""


@dataclass(frozen=True, eq=False)
class GraphData:
    """A client's own graphs, ready to train on; those that are held out are batches, by split.

    `train` is int64 [examples], `label` [graphs], what the shard says of each. On `variant` depend the shapes of the
    client's own parameters. Labels that are numbers are learnt in `unit`; losses count as often as
    `weights` of classes say.
    """

    collator: Collator
    train: Indices
    held_out: dict[str, list[GraphBatch]]
    label: Array
    variant: Variant
    unit: Unit
    weights: Tensor | None = None
    shares: ClassShares | None = None
    moved: dict[tuple[str, str], list[GraphBatch]] = field(default_factory=dict)

    def on(self, device: torch.device, split: str) -> list[GraphBatch]:
        """A held-out split on a device; copied there once."""
        if device.type == "cpu":
            return self.held_out[split]
        if (str(device), split) not in self.moved:
            self.moved[str(device), split] = [batch.to(device) for batch in self.held_out[split]]
        return self.moved[str(device), split]


@dataclass(frozen=True)
class GraphTask(
    LabelledTask[GraphShard, GraphData],
    PooledTask[GraphShard, GraphData],
    PredictingTask[GraphShard, GraphData],
):
    """Answer something of each whole graph, with a model whose ends are the client's own; options as of `Graph`."""

    asks: ClassVar[tuple[str, ...]] = ("graphs", "nodes", "edges")
    variants: ClassVar[bool] = True

    encoder: LayeredEncoder | NetworkEncoder
    objective: Objective
    inputs: OwnInputs
    normalise: Literal["batch", "nothing"] = "batch"
    places: bool = False
    structure: bool = False
    walks: PositiveInt = 16
    degrees: PositiveInt = 16
    wl: NonNegativeInt = 0
    wl_width: PositiveInt = 8192
    wl_scale: PositiveFloat = 5.0
    wl_shared: bool = False
    edge_features: NonNegativeInt = 0
    edge_weights: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        sound = not self.wl_shared or self.counts_alone
        require(sound, f"{name}.wl_shared", "false unless model.hidden is []", self.wl_shared)
        if isinstance(self.encoder, NetworkEncoder):
            wanted = "false with a whole network: the channel goes along convolutions"
            require(not self.structure, f"{name}.structure", wanted, self.structure)
            return
        if self.counts_alone:
            require(self.wl > 0, f"{name}.wl", ">= 1 with model.hidden = [], which leaves counts alone", self.wl)
            for option in ("places", "structure"):
                require(not getattr(self, option), f"{name}.{option}", "false with model.hidden = []", True)
            return
        widths = self.encoder.widths
        needed = "one width for all layers, which tasks about graphs need"
        require(len(set(widths)) == 1, "model.hidden", needed, list(widths))

    def fitted(self, shards: Sequence[GraphShard]) -> Self:
        """With what edges of the data carry, and a note on what of it the model does not read."""
        known = carried_by(shards[0].edge_rows)
        for name in ("edge_features", "edge_weights"):
            if (option := getattr(self, name)) not in (0, value := known.get(name, type(option)())):
                raise InputError(f"task.{name} = {option}, but the data have {value}.")
        note_unread(self, self._inputs, shards[0].edge_rows)
        return replace(self, **known)

    @property
    def counts_alone(self) -> bool:
        """True where the model is linear in counts of subtrees, and there are no convolutions."""
        return not isinstance(self.encoder, NetworkEncoder) and not self.encoder.depth

    @property
    def common_outputs(self) -> int:
        """Numbers that are told of a graph at all clients alike; 0 where each has its own, or they are not known."""
        return 0

    @property
    def offers(self) -> frozenset[str]:
        """A channel of structure beside convolutions; a head, which is always there; an ensemble of models."""
        if self.counts_alone:
            return frozenset({"ensemble"})
        return frozenset({"head", "ensemble", *([] if isinstance(self.encoder, NetworkEncoder) else ["structure"])})

    def with_parts(self, parts: frozenset[str]) -> Self:
        """Return this task with the channel of structure, if that is needed."""
        return replace(self, structure=True) if "structure" in parts else self

    def personal(self, name: str) -> bool:
        """The first layer, the normalisations and the head; what reads counts of subtrees, unless it is shared."""
        return name.startswith(PERSONAL if self.wl_shared else (*PERSONAL, SUBTREES))

    def labels_of(self, shard: GraphShard) -> Labels:
        """Return the kind with what is a client's own, such as its names of classes."""
        return self.labels

    def unit_of(self, shard: GraphShard) -> Unit:
        """Return the unit in which a client learns: of its training graphs."""
        return self.labels.unit(shard.label[shard.rows("train")])

    def prepare(self, shard: GraphShard, shared: Arrays) -> GraphData:
        """Held-out graphs as batches, training graphs to be put together."""
        unit = self.unit_of(shard)
        collator = self._collator(replace(shard, label=self.labels.standardize(shard.label, unit)))
        held_out = {split: self._batches(collator, shard.rows(split)) for split in SCORED_SPLITS}
        seen = self.inputs.width(shard.attributes.shape[1]) + (self.walks + self.degrees) * self.places
        variant = Variant(shard.kinds, seen, self.labels_of(shard).width)
        return GraphData(collator, shard.rows("train"), held_out, shard.label, variant, unit)

    def plain_of(self, model: nn.Module, shard: GraphShard, unit: Unit | None = None) -> PlainModel:
        """Return a client's plain model; of numbers with their unit. Raises `InputError` where it has none."""
        require(not self.wl, "task.wl", "0 for a model that is exported", self.wl)
        raw = self.inputs.raw and not self.inputs.scale
        require(raw, "inputs", "raw_features, without a scale, for a model of graphs that is exported", self.inputs)
        edges = ReadEdges.of(self.encoder, self._inputs, self.edge_features, self.edge_weights, averages=False)
        layers = self.encoder.depth if isinstance(self.encoder, LayeredEncoder) else 1
        places, where = (self.walks, self.degrees), (self.places, self.structure)
        return plain_graphs(model, self.encoder, shard, layers, places, where, edges, self._inputs, unit)

    def examples(self, data: GraphData) -> int:
        """Return how many training graphs the client has."""
        return len(data.train)

    def survey(self, shard: GraphShard) -> dict[str, float]:
        """Return the number of training graphs."""
        return {"examples": float(len(shard.rows("train")))}

    def variant(self, data: GraphData) -> Variant:
        """Widths of features, number of outputs."""
        return data.variant

    def pooled(self, shards: Sequence[GraphShard]) -> GraphShard:
        """One client with everybody's graphs; only where features and classes are the same everywhere."""
        return merge_shards(shards)

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """Convolutions first, so that they are drawn alike at every client."""
        places = self.walks + self.degrees if self.structure else 0
        own = variant if isinstance(variant, Variant) else Variant(1, 0, 2)
        if self.counts_alone:
            return CountsModel(self.wl_width, self.common_outputs or own.classes, self.wl_scale, self.labels)
        normalise, subtrees = self.normalise == "batch", (self.wl_width * (self.wl > 0), self.wl_scale)
        told = self.labels, self.edge_features
        return GraphModel(self.encoder, own, places, normalise, self.objective.dropout, g, *subtrees, *told)

    def together(self, models: Sequence[nn.Module]) -> nn.Module:
        """Return one model that answers as several: the mean of their probabilities or numbers."""
        return Together(models, self.labels)

    def loss(self, model: nn.Module, data: GraphData, draw: Batch, encoded: Tensor | None) -> Losses:
        """Return the loss of each graph of the draw, and the head's hidden layer."""
        batch = data.collator.batch(data.train[draw.examples]).to(device_of(model))
        hidden = model.represent(batch)  # type: ignore[operator]
        losses = weighted(model.losses(hidden, batch, data.shares), batch.label, data.weights)  # type: ignore[operator]
        return Losses(losses, hidden=hidden)

    def evaluate(self, model: nn.Module, data: GraphData) -> dict[str, Sums]:
        """Return the labels' sums."""
        device, sums = device_of(model), {}
        for split in SCORED_SPLITS:
            outputs = ((model(batch), batch.label) for batch in data.on(device, split))
            sums[split] = self.labels.sums_of(outputs, data.unit)
        return sums

    def predict(
        self, model: nn.Module, shard: GraphShard, remembered: Mapping[str, Any], asked: GraphShard
    ) -> dict[str, Array]:
        """What the labels tell of each graph: its class, or its number in the user's unit."""
        outputs = self.outputs_of(model, asked)
        return {"graph": asked.ids, **self.labels_of(shard).answers(outputs, self.unit_of(shard))}

    def represent(self, model: nn.Module, data: GraphData) -> tuple[Array, Array] | None:
        """The head's hidden layer [test graphs, width], and their classes or in which fifth each number is."""
        hidden, label = [], []
        with torch.no_grad():
            for batch in data.on(device_of(model), "test"):
                hidden.append(model.represent(batch).cpu())  # type: ignore[operator]
                label.append(batch.label.cpu())
        return torch.cat(hidden).numpy(), groups_of(torch.cat(label).numpy())

    def tables_of(self, questions: Any) -> dict[str, pd.DataFrame]:
        """PyG `Data` objects as tables of graphs, nodes and edges."""
        return pyg_objects.tables_of(questions, "questions", carried=bool(self.edge_features or self.edge_weights))

    def questions(self, shards: Sequence[GraphShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """Graphs in tables as the data set `graphs` has them, without labels; a column "client" says whose they are.

        Without a table "graphs" they are those of "nodes", in that order.
        """
        return split_graphs(shards, tables)

    def vocabulary(self, shard: GraphShard) -> Sequence[str]:
        """Kinds of nodes, their attributes, classes; what edges carry, where they do."""
        parts = (shard.kind_names, shard.attribute_names, shard.classes)
        words = [str(shard.kinds), str(shard.attributes.shape[1]), *(name for part in parts for name in ("", *part))]
        edges = [f"{name} = {value}" for name, value in carried_by(shard.edge_rows).items()]
        return [*words, *(["", *edges, *shard.edge_names] if edges else [])]

    def outputs_of(self, model: nn.Module, asked: GraphShard) -> Tensor:
        """Return what the model makes of each graph that is asked for, float32 [graphs, outputs], on the CPU."""
        device = device_of(model)
        with torch.no_grad():
            batches = self._batches(self._collator(asked), np.arange(asked.graphs))
            return torch.cat([model(batch.to(device)) for batch in batches]).cpu()

    def _collator(self, shard: GraphShard) -> Collator:
        """With nodes' places if the model looks at them."""
        encodings = places(shard, self.walks, self.degrees) if self.places or self.structure else None
        subtrees = subtree_counts(shard, self.wl, self.wl_width) if self.wl else None
        scale, attributes = self.inputs.scale, shard.attributes
        attributes = self.inputs.read(scaled(attributes, scale) if scale else attributes)
        rows = self._as_read(shard.edge_rows)
        shard = replace(shard, attributes=attributes, attribute_names=(), edge_rows=rows, edge_names=())
        if self.places:
            shard = replace(shard, attributes=np.concatenate([shard.attributes, encodings], 1))
        if isinstance(self.encoder, NetworkEncoder):
            return Collator(shard, None, True, subtrees=subtrees)
        if self.structure:
            return Collator(shard, self.encoder.depth, True, encodings, subtrees)
        return Collator(shard, self.encoder.depth, self.encoder.by_degree, subtrees=subtrees)

    @property
    def _inputs(self) -> int:
        """Width of nodes' states before the encoder."""
        return (self.encoder.inputs or HIDDEN) if isinstance(self.encoder, NetworkEncoder) else self.encoder.width

    def _as_read(self, rows: EdgeRows | None) -> EdgeRows | None:
        """Return what the encoder reads of what edges carry: what it does not would only make more colours."""
        if rows is None:
            return None
        read = self.encoder.reads(self._inputs, rows.width)
        directed = isinstance(self.encoder, LayeredEncoder) and self.encoder.reads_direction
        read_rows = replace(
            rows,
            values=rows.values if "columns" in read else rows.values[:, :0],
            along=rows.along if directed else np.ones_like(rows.along),
            weight=rows.weight if "weights" in read else None,
        )
        nothing = not read_rows.width and read_rows.weight is None and read_rows.along.all()
        return None if nothing else read_rows

    def _batches(self, collator: Collator, graphs: Indices) -> list[GraphBatch]:
        """Consecutive batches of at most so many nodes, or of one graph."""
        if not len(graphs):
            return []
        number = np.cumsum(collator.sizes[graphs]) // MOST_NODES
        cuts = np.flatnonzero(np.diff(number)) + 1
        return [collator.batch(part) for part in np.split(graphs, cuts)]
