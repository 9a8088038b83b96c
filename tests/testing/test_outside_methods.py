"""Methods of other families from outside: one that keeps the laws passes, one that breaks a law fails with its name."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from fedgraft.contracts import Codec
from fedgraft.contracts.baseline import Baseline
from fedgraft.errors import WireError
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.models.gin import GIN
from fedgraft.methods.models.gine import GINE
from fedgraft.methods.models.han import HAN
from fedgraft.methods.models.metapath_means import MetapathMeans
from fedgraft.methods.models.multigraph import Multigraph
from fedgraft.methods.one_model import OneModel, moved
from fedgraft.methods.sharing.fedtad import FedTAD
from fedgraft.nn.layers import linear
from fedgraft.nn.propagate import EdgeValues, Sparse
from fedgraft.testing import Bench, check_baseline, check_data
from fedgraft.testing.toy import Lines, Points
from fedgraft.wire import check
from fedgraft.wire.layouts import Layout, Spec
from helpers.broken_laws import breaks, broken
from laws.codecs import check_codec
from laws.encoders import check_encoder
from laws.sharing import check_sharing


@dataclass(frozen=True)
class Halves(Codec[None]):
    """float32 as float16."""

    def init(self, layout):
        return None

    def encoded(self, layout):
        return Layout(tuple(Spec(s.name, {"float32": "float16"}.get(s.dtype, s.dtype), s.shape) for s in layout))

    def encode(self, arrays, state, g):
        return {name: a.astype(np.float16) if a.dtype == np.float32 else a for name, a in arrays.items()}, None

    def decode(self, arrays, layout):
        check(arrays, self.encoded(layout))
        decoded = {spec.name: arrays[spec.name].astype(spec.dtype) for spec in layout}
        if not all(np.isfinite(a).all() for a in decoded.values() if a.dtype == np.float32):
            raise WireError("not finite")
        return decoded


class Unchecked(Halves):
    def decode(self, arrays, layout):
        return {spec.name: arrays[spec.name].astype(spec.dtype) for spec in layout}


class Jointly(Quantized):
    """Codes rows by what the first of them is."""

    def decode_rows(self, coded, width):
        return super().decode_rows(coded, width) - super().decode_rows(coded[:1], width)


def test_a_codec_from_outside():
    check_codec(Halves)
    assert "arrays_that_encode_cannot_have_made_are_refused" in broken(check_codec, Unchecked)
    assert "a_lossy_one_sends_less" in broken(check_codec, Halves, lossless=True)
    assert "rows_are_coded_each_by_itself" in broken(check_codec, Jointly)


@dataclass(frozen=True)
class Mean(OneModel):
    """The mean of what clients trained.

    Source: this test. Differs: nothing known.
    State: model: the arrays.
    Cost: a model down and its difference up.
    """


class Drifting(Mean):
    def merge(self, state, updates):
        state["model"] = moved(state["model"], updates)
        return state


class Gossiping(Mean):
    def local_update(self, trainer, received, memory):
        trainer.load(received)
        trainer.run()
        return trainer.difference(received), {"tuple": (1, 2)}


class Careless(FedTAD):
    def refined(self, before, merged, updates, network, g):
        merged.update(super().refined(before, merged, updates, network, g))
        return merged


TIMES = []


class Counting(Mean):
    def local_update(self, trainer, received, memory):
        TIMES.append(trainer.client)
        update, memory = super().local_update(trainer, received, memory)
        return {name: array / np.float32(len(TIMES)) for name, array in update.items()}, memory


def test_a_sharing_method_from_outside():
    check_sharing(Mean)
    assert broken(check_sharing, Careless, epochs=1, steps=1, nodes=12) == [
        "what_is_refined_can_be_stored_and_repeats_itself"
    ]

    assert breaks(check_sharing, Counting, "local_steps_that_are_scored_leave_no_trace")
    assert broken(check_sharing, Drifting) == ["nothing_given_is_mutated_and_states_survive_the_wire"]
    assert breaks(check_sharing, Gossiping, "learns_and_keeps_private_names_off_the_wire")


class Deaf(GCN):
    def build(self, node_width, edge_width, g):
        return Own(node_width, self.width, g)


class Own(torch.nn.Module):
    def __init__(self, inputs, outputs, g):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(inputs, outputs, generator=g))

    def forward(self, view):
        return view.nodes @ self.weight


class Denying(GCN):
    reads_neighbours = False


class Blind(Multigraph):
    def edge_convolution(self, inputs, outputs, edge_width, g, make=linear):
        return GIN().convolution(inputs, outputs, g, make)


class Unweighted(GINE):
    """Takes each edge once, whatever it weighs."""

    repeats: ClassVar[bool] = True

    def edge_convolution(self, inputs, outputs, edge_width, g, make=linear):
        return Unweighing(super().edge_convolution(inputs, outputs, edge_width, g, make), self.repeats)


class Once(Unweighted):
    repeats = False


class Unweighing(torch.nn.Module):
    def __init__(self, inner, repeats):
        super().__init__()
        self.inner, self.repeats = inner, repeats

    def forward(self, state, block):
        rows, columns, _ = (each.numpy() for each in block.matrix.listed)
        kept = np.arange(len(rows))
        if not self.repeats:
            kept = np.unique(np.stack([rows, columns]), axis=1, return_index=True)[1]
        matrix = Sparse(rows[kept], columns[kept], np.ones(len(kept), np.float32), block.matrix.shape, small=0)
        edges = EdgeValues(block.edges.values[kept], block.edges.along[kept])
        return self.inner(state, replace(block, matrix=matrix, edges=edges))


def test_an_encoder_from_outside():
    check_encoder(GCN, hidden=6)
    assert broken(check_encoder, Deaf) == ["neighbours_matter"]
    assert breaks(check_encoder, Denying, "neighbours_matter_and_nobody_else")
    assert broken(check_encoder, Blind) == ["what_edges_carry_and_their_direction_matter"]
    assert breaks(check_encoder, Unweighted, "weights_of_edges_count_where_they_are_read")
    assert breaks(check_encoder, Once, "the_order_of_edges_does_not_matter_and_repeats_count")


class Lonely(MetapathMeans):
    def graph(self, matrix):
        return super().graph(matrix.multiply(matrix.T).tocsr())  # leaves out who attends to a node one way


class Equal(MetapathMeans):
    def carried_graph(self, paths):
        return super().carried_graph(replace(paths, matrix=paths.matrix.sign()))


class Numb(MetapathMeans):
    def carried_graph(self, paths):
        return super().carried_graph(replace(paths, values=np.zeros_like(paths.values)))


def test_an_encoder_of_metapaths_from_outside():
    check_encoder(HAN, hidden=6, heads=2)
    check_encoder(MetapathMeans, hidden=6)
    assert broken(check_encoder, Lonely, hidden=6) == ["nodes_that_a_metapath_joins_matter_and_nobody_else"]
    assert broken(check_encoder, Equal, hidden=6) == ["weights_of_paths_count_against_each_other"]
    assert breaks(check_encoder, Numb, "what_edges_carry_matters_to_those_whose_paths_have_it", hidden=6)


@dataclass(frozen=True)
class Few(Lines):
    """A few points.

    Source: the toy task. Differs: nothing known.

    Args:
        clients: how many.
        points: of the smallest.
        width: of the points.
        shift: of the first client's slope.
    """


class Fixed(Few):
    def load(self, seed):
        return super().load(0)


class Random(Few):
    def load(self, seed):
        return super().load(int(np.random.default_rng().integers(1 << 30)))


def test_a_data_set_from_outside():
    check_data(Few, clients=2)
    assert broken(check_data, Fixed) == ["equal_seeds_give_equal_shards_and_others_do_not"]
    assert broken(check_data, Random) == ["equal_seeds_give_equal_shards_and_others_do_not"]
    assert broken(check_data, Lines) == ["is_a_frozen_dataclass_with_a_documented_class"]


@dataclass(frozen=True)
class Middle(Baseline[Points]):
    """The mean of the training targets."""

    task: ClassVar[str] = "fedgraft.testing.toy:Line"

    def score(self, shards):
        y, split = (np.concatenate([getattr(shard, name) for shard in shards]) for name in ("y", "split"))
        mean = y[split == 0].mean()
        return {
            name: float(np.sqrt(((y[split == k] - mean) ** 2).mean())) for k, name in ((1, "validation"), (2, "test"))
        }


class Peeking(Middle):
    def score(self, shards):
        y, split = (np.concatenate([getattr(shard, name) for shard in shards]) for name in ("y", "split"))
        return {"validation": float(np.abs(y[split > 0]).mean()), "test": float(np.abs(y[split == 2]).mean())}


def test_a_baseline_from_outside():
    bench = Bench(Lines(), lambda shard: Points(shard.x, np.where(shard.split == 2, 0, shard.y), shard.split))
    check_baseline(Middle, bench=bench)
    assert broken(check_baseline, Peeking, bench=bench) == ["labels_of_the_test_change_nothing_but_its_score"]
