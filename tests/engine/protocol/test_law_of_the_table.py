"""The law over the table: a server that asks for everything is told no more than the claim, over every private recipe.

It asks for every kind of message, in every round, from every memory, with numbers at the edge of every bound. No pad is
used for two contents, no more replies hold noise than the claim counts, and what fails does not depend on the data.
"""

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import ClientFailed
from fedgraft.domains.nodes.task import variants
from fedgraft.engine import boundary_codec
from fedgraft.engine.privacy import private_sums
from fedgraft.engine.privacy.halo_sums import DEGREES
from fedgraft.engine.privacy.spending import Spending
from fedgraft.engine.protocol import codes
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.sums import noise_in, told_by_kind
from fedgraft.engine.protocol.table import TABLE
from fedgraft.engine.server.exchange import Exchange
from fedgraft.engine.server.ledger import Ledger
from fedgraft.engine.server.sums.masked_exchange import MaskedExchange
from fedgraft.errors import ClientError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.policies import own_policy
from fedgraft.nn.clipped_gradients import each_gradient
from fedgraft.runtimes.federation.nodes_runtime import NodesRuntime
from fedgraft.runtimes.federation.places import Places
from fedgraft.secrets.masked_sum import Member
from fedgraft.wire import Message
from helpers.local_nodes import RUN, LocalLink, nodes_of
from helpers.toy_graphs import write_tu

ENOUGH, ROUNDS, CLIENTS = 1 << 24, 2, 4
COMMON = {"rounds": ROUNDS, "baselines": [], "privacy.delta": 1e-4, "evaluation.every": 1}
RECIPES = {
    "graft_node_private": {
        **{"data.name": "blocks", "data.nodes": 60, "data.features": 3, "data.clients": CLIENTS},
        **{"answers.smoothing": 2, "privacy.answers": 1.0},
    },
    "graft_graph_private": {"data.sets": "MUTAG", "data.clients": CLIENTS, "task.wl_width": 16},
    "graft_rating_private": {
        **{"data.users": 30, "data.items": 30, "data.count": 120, "data.clients": CLIENTS, "training.epochs": 1},
    },
}
MODES = {"masked": {}, "signed": {"secure_sum.signed": True}}
EDGES = {"zeros": (1.0, 0.0), "ones": (3.0, 1.0), "huge": (2.0**31, 3e38), "none": (float("nan"), float("inf"))}
"""{name: (scalars, numbers of arrays)} of a request."""
HOLE = "hole"
"""An edge by itself: zeros, but for the first number of each array, which is -inf."""


class Asking:
    """A server that asks client 1 for everything.

    Args:
        recipe: of `RECIPES`.
        mode: of `MODES`.
        root: of the nodes' folders.
        change: changes client 1's data.
    """

    def __init__(self, recipe, mode, root, change=lambda shard: shard):
        graphs = {"data.root": str(root)} if recipe == "graft_graph_private" else {}
        if graphs:
            root.mkdir(exist_ok=True)
            write_tu(root, graphs=40)
        experiment = jobs.load(recipe, {**COMMON, **RECIPES[recipe], **MODES[mode], **graphs})
        shards = list(experiment.data.load(experiment.seed))
        shards[1] = change(shards[1])
        experiment = experiment.fitted(shards)
        self.plan = replace(experiment.plan, policy=own_policy(experiment))
        self.nodes = nodes_of(self.plan, shards, root)
        self.runtime = NodesRuntime(LocalLink(self.nodes), RUN, len(shards), b"")
        self.runtime.wait_for_all()
        self.protocol, self.transcript = Protocol.of(self.plan), []
        exchange = Exchange(self.plan, self.runtime, Ledger(), 5.0)
        self.masks = MaskedExchange(self.plan, exchange, len(shards))
        self.memories = [{}]

    def everything(self, edges=EDGES):
        """Ask, and write down what came of each request; keep what the client remembers, to go back to it."""
        for kind, row in TABLE.items():
            if row.number is None or row.request is None:
                continue
            for round in (0, 1, 2, 3, 77):
                for memory in range(len(self.memories[-2:])):
                    for edge in edges:
                        self.ask(kind, round, self.memories[-2:][memory], edge)
            self.memories.append(dict(self.runtime.memories()))
        return self.transcript

    def ask(self, kind, round, memory, edge):
        self.runtime.restore(dict(memory))
        told, number = EDGES.get(edge, (3.0, 0.0))
        row, encrypted = TABLE[kind], {}
        if row.added and self.plan.collection.assurance:
            masked = self.masks.agreed([0, 1, 2, 3], round, row.added.segment)
            encrypted = masked.order(1) if 1 in masked.peers else {}
        names, layout = self.protocol.request_names.get(kind, ()), self.protocol.request_layouts.get(kind)
        shapes = {spec.name: (spec.dtype, tuple(max(0, size) for size in spec.shape)) for spec in layout or ()}
        with np.errstate(all="ignore"):
            arrays = {name: np.full(shape, number).astype(dtype) for name, (dtype, shape) in shapes.items()}
        if edge == HOLE:
            for array in (each for each in arrays.values() if each.size and each.dtype.kind == "f"):
                array.flat[0] = -np.inf
        arrays |= {name: array for name, array in encrypted.items() if name in shapes}
        if DEGREES in arrays and self.plan.smoothing:  # who asks for answers knows how many nodes are joined to others
            arrays[DEGREES] = np.zeros(self.joined(), np.uint32)
        report = dict.fromkeys(names, told) | ({"weight": 1.0} if "weight" in names else {})
        request = wire.encode(Message(kind, round, report, arrays if layout else None), layout, names)
        answer = self.runtime.exchange({1: request}, {1: ENOUGH}, 5.0)[1]
        self.transcript.append((kind, round, edge, _outcome(answer), answer if isinstance(answer, bytes) else b""))

    def joined(self):
        """How many of client 1's nodes are joined to those of others, as it has told."""
        reply = next(answer for kind, *_, answer in self.transcript if kind == "border" and answer)
        arrays = wire.decode(reply, self.protocol.reply_layouts).arrays
        return len(boundary_codec.decode(arrays["border"], 1).nodes)


def _outcome(answer):
    if isinstance(answer, ClientFailed):
        return answer.reason
    message = wire.kind_of(answer)
    return wire.decode(answer).text if message == "error" else message


@pytest.fixture
def pads(monkeypatch):
    """{(root, client, round, segment): contents that were masked}."""
    seen, masked = defaultdict(set), Member.masked

    def spy(self, codes, bits, peers):
        seen[self.root, self.client, self.round, self.segment].add((bits, codes.tobytes()))
        return masked(self, codes, bits, peers)

    monkeypatch.setattr(Member, "masked", spy)
    return seen


def breaks(server, pads, edges=EDGES):
    """What of the law a server has broken."""
    transcript, plan = server.everything(edges), server.plan
    found = [f"pad {key[1:]} hides {len(each)} contents" for key, each in pads.items() if len(each) > 1]
    noised = {
        kind: {answer for name, *_, answer in transcript if answer and wire.kind_of(answer) == kind == name}
        for kind in Protocol.of(plan).spends
    }
    found += [
        f"{len(answers)} replies of kind {kind!r} hold noise, and the claim counts {server.protocol.spends[kind]}"
        for kind, answers in noised.items()
        if len(answers) > server.protocol.spends[kind]
    ]
    lines = [told_by_kind(plan)[kind] for kind, answers in noised.items() for _ in answers]
    epsilon = Spending(replace(plan.policy, delta=plan.privacy.delta), lines).epsilons.get(plan.privacy.unit, 0.0)
    claim = noise_in(plan).epsilon
    return [*found, *([f"epsilon {epsilon:.4g} above {claim:.4g}"] if epsilon > claim + 1e-6 else [])]


SOME = [*list(RECIPES)[:1], *(pytest.param(recipe, marks=pytest.mark.slow) for recipe in list(RECIPES)[1:])]


@pytest.mark.parametrize("mode", ["masked", pytest.param("signed", marks=pytest.mark.slow)])
@pytest.mark.parametrize("recipe", SOME)
def test_no_pad_twice_and_no_epsilon_above_the_claim(recipe, mode, tmp_path, pads):
    server = Asking(recipe, mode, tmp_path)
    assert breaks(server, pads) == []
    served = Counter(kind for kind, *_, answer in server.transcript if answer and wire.kind_of(answer) == kind)
    hidden = {"publish"} if recipe == "graft_rating_private" else {"train"}
    assert served.keys() >= {"hello", *hidden}, "the law is of what is served, not of refusals"
    assert pads


def other(shard):
    """The same data but for one training example, which is as far off as its type allows."""
    name = "rating" if hasattr(shard, "rating") else "label"
    values, split = getattr(shard, name).copy(), np.asarray(shard.split)
    row = int(np.flatnonzero(split == split.min())[0])
    values[row] = values.max() if values[row] != values.max() else values.min()
    return replace(shard, **{name: values})


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_no_error_depends_on_data(recipe, tmp_path):
    """Which requests are served and which fail, and with what code, is the same for neighbouring data."""
    one, two = (
        Asking(recipe, "masked", tmp_path / name, change).everything()
        for name, change in (("one", lambda shard: shard), ("two", other))
    )
    assert [each[:4] for each in one] == [each[:4] for each in two]
    assert any(a[4] != b[4] for a, b in zip(one, two, strict=True)), "and yet the data are others"


# --- mutants that the law must catch ----------------------------------------------------------------------------------


FEW = ("zeros", "ones")
"""Numbers that are enough to catch them; who asks with all asks with these, too."""


def caught(recipe, mode, root, pads):
    return " ".join(breaks(Asking(recipe, mode, root), pads, FEW))


@pytest.mark.slow
def test_a_journal_that_does_not_count_rounds_is_caught(tmp_path, pads, monkeypatch):
    """B5: the server names empty memories, and rounds beyond the plan's."""
    monkeypatch.setattr(Places, "outside", lambda self, kind, round: "")
    monkeypatch.setattr(Places, "most_noised", lambda self, kind: 0)
    monkeypatch.setattr(Protocol, "check", lambda self, kind, round: None)
    monkeypatch.setattr("fedgraft.engine.client.addend.NoisyAddend._count", lambda self, memory: None)
    monkeypatch.setattr(Spending, "refusal", lambda self, part: "")
    assert "replies of kind 'train' hold noise" in caught("graft_node_private", "masked", tmp_path, pads)


@pytest.mark.slow
def test_statistics_that_are_published_in_each_round_are_caught(tmp_path, pads, monkeypatch):
    """B6."""
    monkeypatch.setattr(Places, "outside", lambda self, kind, round: "")
    monkeypatch.setattr(Places, "_is_once", lambda self, kind: False)
    monkeypatch.setattr(Places, "most_noised", lambda self, kind: 0)
    monkeypatch.setattr(Protocol, "check", lambda self, kind, round: None)
    monkeypatch.setattr(Spending, "refusal", lambda self, part: "")
    assert "replies of kind 'publish' hold noise" in caught("graft_rating_private", "masked", tmp_path, pads)


@pytest.mark.slow
def test_answers_that_are_drawn_anew_in_each_round_are_caught(tmp_path, pads, monkeypatch):
    """B7."""
    monkeypatch.setattr(Places, "_is_once", lambda self, kind: False)
    monkeypatch.setattr(Places, "most_noised", lambda self, kind: 0)
    monkeypatch.setattr(Spending, "refusal", lambda self, part: "")
    assert "replies of kind 'smooth' hold noise" in caught("graft_node_private", "masked", tmp_path, pads)


def test_a_sum_that_takes_two_orders_is_caught(tmp_path, pads, monkeypatch):
    """B8: one pad, two contents."""
    monkeypatch.setattr(Places, "most", lambda self, place: 9)
    monkeypatch.setattr(Places, "most_noised", lambda self, kind: 0)
    monkeypatch.setattr(Spending, "refusal", lambda self, part: "")
    monkeypatch.setattr("fedgraft.engine.client.addend.NoisyAddend._count", lambda self, memory: None)
    assert "hides 2 contents" in caught("graft_node_private", "signed", tmp_path, pads)


def test_an_error_that_tells_of_data_is_caught(tmp_path, monkeypatch):
    """B9: a client that fails where the numbers that it hides are those of one of two data sets."""
    coded, sums = private_sums.PrivateSums.coded, []

    def told(arrays):
        return b"".join(arrays[name].tobytes() for name in sorted(arrays))

    def failing(self, arrays, *given):
        sums.append(told(arrays))
        if sums[-1] != sums[0]:
            raise ClientError("too large")
        return coded(self, arrays, *given)

    monkeypatch.setattr(private_sums.PrivateSums, "coded", failing)
    one, two = (
        Asking("graft_rating_private", "masked", tmp_path / name, change).everything(FEW)
        for name, change in (("one", lambda shard: shard), ("two", other))
    )
    assert [each[:4] for each in one] != [each[:4] for each in two]


def positive(shard):
    return replace(shard, features=np.abs(shard.features) + np.float32(1))


def with_a_zero(shard):
    """The same but for one number of one training node."""
    features, row = positive(shard).features, int(np.flatnonzero(np.asarray(shard.split) == shard.split.min())[0])
    features[row, 0] = 0
    return replace(shard, features=features)


def test_a_model_that_is_not_finite_and_is_taken_is_caught(tmp_path, monkeypatch):
    """B10: -inf times a feature is infinite, and is no number where the feature is 0: error or served tells it."""
    clipped = variants.clipped_gradients

    def failing(*given):
        if not all(np.isfinite(each).all() for each in each_gradient(*given[:-1]).values()):
            raise ClientError("its gradient is not finite")
        return clipped(*given)

    def outcomes(name):
        pairs = (("one", positive), ("two", with_a_zero))
        asked = [Asking("graft_node_private", "masked", tmp_path / name / each, change) for each, change in pairs]
        for server in asked:
            for round in (1, 2):
                server.ask("train", round, {}, HOLE)
        return [[line[3] for line in server.transcript] for server in asked]

    monkeypatch.setattr(variants, "clipped_gradients", failing)
    monkeypatch.setattr("fedgraft.engine.client.addend.NoisyPart.ran", lambda self, train, memory: train())
    assert outcomes("refused") == [[codes.REFUSED] * 2] * 2, "the model is refused before data are looked at"
    monkeypatch.setattr("fedgraft.engine.client.client.sound", lambda model: model)
    assert outcomes("taken") == [["train"] * 2, [codes.UNABLE] * 2]
