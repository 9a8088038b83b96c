"""Tasks from outside: one that keeps the laws passes, one that breaks a law fails with its name."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from fedgraft.contracts.parts import part, parts_of
from fedgraft.contracts.structure import WHOLE
from fedgraft.domains.nodes.task.answers import NodeAnswers
from fedgraft.domains.nodes.task.variants import SyntheticNodes
from fedgraft.domains.nodes.task.views import NodeViews
from fedgraft.domains.nodes.training.exchange import NodeExchange
from fedgraft.domains.ratings.telling_users import TellingUsers
from fedgraft.experiment.recipes import discovery
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.data.catalogue import Catalogue
from fedgraft.methods.data.shops import Shops
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.losses.sampled_softmax import SampledSoftmax
from fedgraft.methods.tasks.node import Node
from fedgraft.methods.tasks.ranking import Ranking
from fedgraft.methods.tasks.rating import Rating
from fedgraft.testing import check_task
from fedgraft.testing.toy import Line, Lines
from laws import tasks

BLOCKS = Blocks(nodes=60, classes=3, clients=3, features=8)
SHOPS = Shops(users=60, items=80, categories=4, links=200, count=600, clients=3)


@dataclass(frozen=True)
class Fitted(Line):
    """A line through points.

    Source: the toy task. Differs: nothing known.

    Args:
        width: of the points.
        fault: nothing.
        faulty_points: none.
    """


def test_a_task_from_outside_keeps_the_laws():
    check_task(Fitted, Lines())


def with_part(kind, task):
    """The task with a part of this kind in place of its own."""
    name = next(name for name, own in parts_of(task).items() if issubclass(kind, own))

    def made(self):
        changed = object.__new__(kind)
        changed.__dict__.update(getattr(super(cls, self), name).__dict__)
        return changed

    made.__annotations__["return"] = kind
    cls = type(kind.__name__, (task,), {name: part(made)})
    return cls


class Shared(NodeExchange):
    def opened(self, data, states):
        return super().opened(data, states) if states is not None else data


class Forgetful(NodeExchange):
    def opened(self, data, states):
        return super().opened(data, None)


class Aliased(NodeExchange):
    def closed(self, data):
        tree = super().closed(data)
        data.states._shared = False  # as if nobody else had the rows
        return tree


class Repeating(NodeExchange):
    def changed(self, data):
        untold = [each.copy() for each in data.states.unpublished]
        found = super().changed(data)
        data.states.unpublished = untold
        return found


class Misplaced(NodeExchange):
    """Takes rows of others for its own."""

    def received_places(self, client, shard, shared):
        return {name: each * 0 + client for name, each in super().received_places(client, shard, shared).items()}


class Backwards(NodeExchange):
    def halo_of(self, shard):
        halo = super().halo_of(shard)
        return halo._replace(place=halo.place[::-1])


class Everywhere(NodeExchange):
    def read(self, data, draw):
        return [np.arange(data.own + data.halo) for _ in self.halo_widths]


class Mirrored(NodeExchange):
    def halos(self, statistics):
        halos = super().halos(statistics)
        return {
            client: (nodes, halo._replace(owner=halo.owner * 0 + client)) for client, (nodes, halo) in halos.items()
        }


class Secretive(NodeExchange):
    def named(self, statistics):
        return [type(each)(each.owner[1:], each.place[1:]) for each in super().named(statistics)]


class OneWay(NodeViews):
    def local_graph(self, model, data):
        seen = super().local_graph(model, data)
        return seen._replace(edges=seen.edges[:, seen.edges[0] < seen.edges[1]])


class Unjoined(NodeViews):
    def on_graph(self, model, features, edges):
        return super().on_graph(model, features, edges[:, :0])


class Flattering(NodeAnswers):
    def classified(self, model, shard, data, remembered):
        found = super().classified(model, shard, data, remembered)
        return found._replace(answer=found.label)


class Mislabelled(NodeViews):
    def observe(self, model, data):
        seen = super().observe(model, data)
        return seen._replace(labels=(seen.labels + 1) % self.classes)


class Directed(NodeViews):
    def edges(self, data):
        examples, edges = super().edges(data)
        return examples, edges[:, edges[0] < edges[1]]


class Changing(NodeViews):
    def states(self, model, data, left_out=WHOLE, seed=0):
        return super().states(model, data, left_out, int(torch.randint(1 << 30, ())) if left_out != WHOLE else seed)


class Unsteady(SyntheticNodes):
    """Draws other data each time."""

    def synthetic(self, g):
        return super().synthetic(np.random.default_rng())


class Trusting(TellingUsers):
    def check(self, statistics):
        """Anything goes."""


class Fussy(TellingUsers):
    def check(self, statistics):
        raise ValueError("no")


class Drawing(Ranking):
    """Draws from torch's own generators."""

    def _drawn(self, seed):
        return torch.randperm(self.items)[: self.objective.negatives].numpy()


class Fixed(Ranking):
    """Draws the same in every step."""

    def _drawn(self, seed):
        return np.arange(self.objective.negatives)


@pytest.mark.parametrize("cls", [Drawing, Fixed])
def test_a_task_that_does_not_draw_from_its_seed_is_caught(cls):
    made = tasks.laws(
        cls, Catalogue(users=60, items=50, count=900, clients=2), objective=SampledSoftmax(5, dropout=0.0)
    )
    laws = {str(each): each for each in made}
    with pytest.raises(AssertionError, match="breaks the law 'what_a_step_draws_depends_on_its_seed_alone'"):
        laws["what_a_step_draws_depends_on_its_seed_alone"]()


@pytest.mark.parametrize(
    ("cls", "law"),
    [
        (Shared, "opening_never_changes_what_was_prepared"),
        (Forgetful, "what_is_closed_is_what_was_opened"),
        (Aliased, "states_once_closed_do_not_change"),
        (Repeating, "rows_are_returned_once_after_they_changed"),
        (Everywhere, "what_a_step_reads_lies_in_the_halo"),
        (Mirrored, "addresses_of_the_halo_are_nodes_of_others"),
        (Secretive, "nodes_that_a_client_names_are_nodes_of_others"),
        (Misplaced, "encrypted_rows_are_handed_on_as_they_are"),
        (Backwards, "addresses_of_the_halo_are_known_from_the_shard"),
        (OneWay, "a_local_graph_is_of_all_own_nodes_and_of_the_edges_between_them"),
        (Unjoined, "a_model_makes_of_a_given_graph_what_it_makes_of_a_clients"),
        (Flattering, "what_examples_are_taken_for_is_what_the_score_counts"),
        (Mislabelled, "what_the_model_makes_of_examples_is_what_their_losses_say"),
        (Directed, "all_nodes_are_seen_as_training_examples_are"),
        (Changing, "a_view_is_drawn_from_its_seed_and_leaves_the_graph_as_it_is"),
        (Unsteady, "what_is_nobodys_is_drawn_alike_and_answered_alike"),
        (Trusting, "nonsense_is_refused_before_it_is_combined"),
        (Fussy, "nonsense_is_refused_before_it_is_combined"),
    ],
)
def test_a_task_that_breaks_a_law_is_caught(cls, law):
    node = cls not in (Trusting, Fussy)
    encoder = discovery.build("models", "model", {"name": "gcn"})
    options = {"exchange": Halo(encrypted_rows=cls in (Misplaced, Backwards))} if node else {"share": "users"}
    task = with_part(cls, Node if node else Rating)
    laws = {str(each): each for each in tasks.laws(task, BLOCKS if node else SHOPS, encoder=encoder, **options)}
    with pytest.raises(AssertionError, match=f"{cls.__name__} breaks the law '{law}'"):
        laws[law]()
