"""ConsisRec: attention over sampled neighbours that are consistent with the pair, over all data at one place."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import MinLen
from torch import Tensor, nn

from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.randomness import generator, torch_generator
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, PositiveProportion
from fedgraft.domains.ratings.shards import Ids, RatingShard
from fedgraft.domains.ratings.social_factors import Factors, PooledRatings, Scores, best_of
from fedgraft.nn.layers import linear, normal

GRADES = 5
"""Rating values told apart as relations: equal steps of the scale."""
LEAST_STEPS = 20
"""Of a pass, however few ratings there are."""


@dataclass(frozen=True)
class ConsisRec(Baseline[RatingShard]):
    """ConsisRec: a graph network whose neighbours are sampled by how they fit the pair asked for, at one place.

    Nodes are users and items; a user's neighbours are the items it rated and the users it trusts, an item's are its
    raters. For user u and item t, on u's side (and likewise on t's, with weights of its own)

        q = W_q [e_u || e_t],     p_j ~ exp(-|q - e_j|) over neighbours j, of which a share is drawn without replacement
        a_j = softmax over those drawn of  c . [e_j || r_j],     z_u = relu(W [e_u || sum a_j e_j])

    with r_j the relation's embedding: one for each value of a rating and one for trust. The rating is z_u . z_t.

    Source: Yang, Liu, Wang, Guo, Yu, "ConsisRec: Enhancing GNN for Social Recommendation via Consistent Neighbor
        Aggregation", SIGIR 2021, Eq. (1)-(6); the authors' code (YangLiangwei/ConsisRec; read, not copied).
    Differs:
        - The pair itself is not among its own neighbours in training, since its relation is the rating asked for.
        - Of each node's neighbours at most `neighbours` are candidates, drawn anew for every pass; scores are made with
          the most probable candidates in place of drawn ones.
        - c is trained: in the code it is a tensor outside the model. Lists of relations stay as they are: the code
          makes them longer with every batch. As there, nothing trains W_q, through which no gradient passes.
        - No links between items, as the data have none. The mean alone is in the grid too. Ratings are (r - low) /
          (high - low); predictions are clipped.

    Args:
        width: of embeddings, >= 1 (paper: 8 to 64).
        neighbours: most candidates of a node, >= 1.
        share: of the candidates that are drawn, at least one, in (0, 1] (paper: 0.2 to 1; code: 0.4).
        rate: of Adam, > 0 (code: 0.001 and 0.01).
        decay: grid of Adam's L2 penalties, each >= 0 (code: 0.0001), tuned on validation.
        batch_size: most ratings per step, >= 1; fewer where a pass would have fewer than twenty steps.
        epochs: most passes of a fit, >= 1.
        patience: passes without a better validation score that end a fit, >= 1 (code: 5).
        seed: of all that is drawn, >= 0.

    Needs: all training ratings and all trust links at one place: not federated.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "rating"

    width: PositiveInt = 16
    neighbours: PositiveInt = 10
    share: PositiveProportion = 0.4
    rate: PositiveFloat = 0.01
    decay: Annotated[tuple[NonNegativeFloat, ...], MinLen(1)] = (1e-4,)
    batch_size: PositiveInt = 8192
    epochs: PositiveInt = 30
    patience: PositiveInt = 3
    seed: NonNegativeInt = 0

    def score(self, shards: Sequence[RatingShard]) -> dict[str, float]:
        """RMSE over all clients' validation and test ratings."""
        pooled = PooledRatings.of(shards)
        return best_of([pooled.scores_of_mean(), *(self._fit(pooled, decay) for decay in self.decay)])

    def _fit(self, pooled: PooledRatings, decay: float) -> Scores:
        """The scores of a fit at the pass that is best on validation."""
        g = generator(self.seed, "consisrec")
        noise = torch_generator(self.seed, "consisrec")
        edges = Edges(pooled)
        model = ConsisRecModel(self, edges.nodes, noise)
        optimizer = torch.optim.Adam(model.parameters(), lr=self.rate, weight_decay=decay, fused=True)
        user, item = torch.from_numpy(pooled.rated.row), torch.from_numpy(pooled.rated.column + pooled.users)
        target = torch.from_numpy(pooled.target)
        steps = min(len(target), max(LEAST_STEPS, -(-len(target) // self.batch_size)))
        best, since = {"validation": math.inf, "test": math.inf}, 0
        for _ in range(self.epochs):
            candidates = edges.candidates(self.neighbours, g)
            for part in np.array_split(g.permutation(len(target)), steps):
                rows = torch.from_numpy(part)
                optimizer.zero_grad()
                predicted = model(user[rows], item[rows], candidates, noise)
                ((predicted - target[rows]) ** 2).mean().backward()
                optimizer.step()
            scores = self._judge(model, pooled, candidates)
            best, since = (scores, 0) if scores["validation"] < best["validation"] else (best, since + 1)
            if since >= self.patience:
                break
        return best

    def _judge(self, model: "ConsisRecModel", pooled: PooledRatings, candidates: "Candidates") -> Scores:
        """Score with the most probable candidates."""

        def predict(user: Ids, item: Ids) -> Factors:
            predicted = np.empty(len(user), np.float32)
            with torch.no_grad():
                for first in range(0, len(user), self.batch_size):
                    part = slice(first, first + self.batch_size)
                    ends = torch.from_numpy(user[part]), torch.from_numpy(item[part] + pooled.users)
                    predicted[part] = model(*ends, candidates, None).numpy()
            return predicted

        return pooled.scores(predict)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Some neighbours of every node.

    Args:
        node: int64 [nodes, most]; relation: int64 [nodes, most]; known: bool [nodes, most], False where there are
            fewer.
    """

    node: Tensor
    relation: Tensor
    known: Tensor


class Edges:
    """All neighbours of all nodes, users and then items, with their relations: grades, and then trust.

    Args:
        pooled: training ratings and trust links.
    """

    def __init__(self, pooled: PooledRatings) -> None:
        self.nodes = pooled.users + pooled.items
        user, item = pooled.rated.row, pooled.rated.column + pooled.users
        grade = np.rint(pooled.target * (GRADES - 1)).astype(np.int64)
        source, target = pooled.shard.trust
        self._receiver = np.concatenate([user, item, source])
        self._sender = np.concatenate([item, user, target])
        self._relation = np.concatenate([grade, grade, np.full(len(source), GRADES)])

    def candidates(self, most: int, g: np.random.Generator) -> Candidates:
        """Draw so many neighbours of each node, all where there are no more."""
        order = np.lexsort((g.random(len(self._receiver)), self._receiver))
        receiver = self._receiver[order]
        starts = np.searchsorted(receiver, np.arange(self.nodes))
        place = np.arange(len(receiver)) - starts[receiver]
        kept = place < most
        node, relation = np.zeros((2, self.nodes, most), np.int64)
        known = np.zeros((self.nodes, most), np.bool_)
        where = receiver[kept], place[kept]
        node[where], relation[where], known[where] = self._sender[order][kept], self._relation[order][kept], True
        return Candidates(*map(torch.from_numpy, (node, relation, known)))


class ConsisRecModel(nn.Module):
    """Embeddings of all nodes, and a side for users and one for items."""

    def __init__(self, options: ConsisRec, nodes: int, g: torch.Generator) -> None:
        super().__init__()
        width = options.width
        self.nodes = normal(nodes, width, std=0.1, g=g)
        self.relations = normal(GRADES + 1, width, std=0.1, g=g)
        self.of_user, self.of_item = (Side(width, options.share, g) for _ in range(2))

    def forward(self, user: Tensor, item: Tensor, candidates: Candidates, noise: torch.Generator | None) -> Tensor:
        """Ratings of pairs in [0, 1], about; neighbours are drawn from `noise`, or the most probable without."""
        ends = self.nodes.index_select(0, user), self.nodes.index_select(0, item)
        states = []
        for side, own, other, ask, avoid in (
            (self.of_user, ends[0], ends[1], user, item),
            (self.of_item, ends[1], ends[0], item, user),
        ):
            node = candidates.node.index_select(0, ask)
            known = candidates.known.index_select(0, ask) & (node != avoid[:, None])
            senders = self.nodes.index_select(0, node.flatten()).view(*node.shape, -1)
            relations = candidates.relation.index_select(0, ask)
            states.append(side(own, other, senders, self.relations, relations, known, noise))
        predicted: Tensor = (states[0] * states[1]).sum(1)
        return predicted


class Side(nn.Module):
    """What makes a node's state of its neighbours, given the pair."""

    def __init__(self, width: int, share: float, g: torch.Generator) -> None:
        super().__init__()
        self.share = share
        self.query, self.mix = linear(2 * width, width, g), linear(2 * width, width, g)
        self.query.requires_grad_(False)
        self.attention = normal(2, width, std=0.1, g=g)

    def forward(
        self,
        own: Tensor,
        other: Tensor,
        senders: Tensor,
        relation_states: Tensor,
        relations: Tensor,
        known: Tensor,
        noise: torch.Generator | None,
    ) -> Tensor:
        """States [pairs, width], of senders [pairs, candidates, width] that are `known`."""
        with torch.no_grad():
            drawn = self._drawn(self.query(torch.cat([own, other], 1)), senders, known, noise)
        scores = senders @ self.attention[0] + (relation_states @ self.attention[1])[relations]
        weights = torch.softmax(scores.masked_fill(~drawn, -1e9), 1) * drawn
        received = (weights[:, :, None] * senders).sum(1)
        return torch.relu(self.mix(torch.cat([own, received], 1)))

    def _drawn(self, query: Tensor, senders: Tensor, known: Tensor, noise: torch.Generator | None) -> Tensor:
        """Return which are drawn, bool [pairs, candidates], by Gumbel's trick: those with the largest log p + noise."""
        chance = -torch.linalg.vector_norm(query[:, None, :] - senders, dim=2)
        if noise is not None:
            chance = chance - torch.empty_like(chance).exponential_(generator=noise).log()
        chance = chance.masked_fill(~known, -math.inf)
        count = (self.share * known.sum(1)).long().clamp(min=1)
        least = chance.sort(1, descending=True).values.gather(1, count[:, None] - 1)
        drawn: Tensor = (chance >= least) & known
        return drawn
