"""A made-up catalogue of items with topics, texts and images, and users who take some, without any download."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from fedgraft.contracts.data import ClientData, Clients
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt
from fedgraft.domains.ranking.shards import Ids, Interactions, RankingShard, check_partition, deal
from fedgraft.errors import require
from fedgraft.wire.layouts import Array

Floats = NDArray[np.float64]

TAIL = 0.7
"""Popularity falls as 1 / rank^TAIL."""
HEAD = 20
"""A twentieth of items has about equal popularity, and of users equal activity; after it, both fall as 1 / rank."""
LEAST = 5
"""Interactions of the least active user, where the items are that many."""
AT_ONCE = 1 << 20
"""Pairs of user and item that are drawn at a time: arrays of 8 MB."""


@dataclass(frozen=True)
class Catalogue(ClientData[RankingShard]):
    """A generator of users and items: items have topics, users have tastes for topics; a client holds whole users.

    An item is a mixture of few topics, and a user likes few. A user takes items without repeats, with probability
    proportional to popularity * exp(taste * agreement), where agreement is the user's liking of the item's topics with
    variance 1. Two modalities, "text" and "image", are noisy linear functions of an item's topics, each of other
    topics more than of the rest. So popularity beats chance, tastes beat popularity, and features tell something of
    items that few have taken.

    Source: none; orders of magnitude (interactions per user, long tail of items) after MovieLens-100K.
    Differs: nothing known.

    Args:
        users: number of users, >= clients.
        items: number of items, >= 10.
        count: number of interactions, at least 5 a user and at most half of users x items.
        topics: number of topics, >= 2.
        taste: how much users take what suits them: log-odds per standard deviation of agreement, >= 0.
        text: columns of "text", >= 0; 0 leaves it out.
        image: columns of "image", likewise.
        noise: standard deviation of what features do not tell, by that of what they do, >= 0.
        clients: number of clients, 1..users.
        partition: "exponential", "linear" or "uniform", the shape of the clients' portions; client 0 is the largest.
        ubi: interactions of the smallest client by those of the largest, in (0, 1]; not used with "uniform".
    """

    task: ClassVar[str] = "ranking"

    users: int = 600
    items: int = 400
    count: int = 18_000
    topics: Annotated[int, Ge(2)] = 8
    taste: NonNegativeFloat = 1.5
    text: NonNegativeInt = 24
    image: NonNegativeInt = 32
    noise: NonNegativeFloat = 0.5
    clients: int = 8
    partition: str = "exponential"
    ubi: float = 0.1172

    def __post_init__(self) -> None:
        super().__post_init__()
        check_partition("Catalogue", self.clients, self.partition, self.ubi)
        allowed = f">= {self.clients} (clients), with {LEAST} of data.count for each"
        require(self.users >= self.clients, "Catalogue.users", allowed, self.users)
        require(self.items >= 2 * LEAST, "Catalogue.items", f">= {2 * LEAST}", self.items)
        low, high = LEAST * self.users, self.users * self.items // 2
        require(low <= self.count <= high, "Catalogue.count", f"{low}..{high}", self.count)

    def interactions(self, seed: int) -> Interactions:
        """Make the whole set, before it is dealt to clients."""
        g = generator(seed, "catalogue")
        # Shares of topics, most of each row's in one or two.
        topic, taste = (g.dirichlet(np.full(self.topics, 0.3), rows) for rows in (self.items, self.users))
        agreement = taste @ topic.T
        agreement /= agreement.std()
        popularity = g.permutation(_falling(self.items, TAIL))
        user, item = self._taken(g, np.log(popularity) + self.taste * agreement)
        width = {"text": self.text, "image": self.image}
        return Interactions(
            user=user,
            item=item,
            user_ids=_labels("user", self.users),
            item_ids=_labels("item", self.items),
            features={modality: self._features(g, topic, columns) for modality, columns in width.items() if columns},
            titles=np.array([f"Item {k + 1} of topic {t + 1}" for k, t in enumerate(topic.argmax(axis=1).tolist())]),
        )

    def clients_of(self, seed: int) -> Clients[RankingShard]:
        """Return the clients, parts of one whole; `seed` makes users and items as well as their partition and split."""
        return deal(self.interactions(seed), self.clients, self.partition, self.ubi, seed)

    def _taken(self, g: np.random.Generator, log_odds: Floats) -> tuple[Ids, Ids]:
        """Users and items of the interactions: each user's are drawn at once, without repeats (Gumbel's top k)."""
        most = self.items // 2
        shares = g.permutation(_falling(self.users, 1.0))
        counts = np.full(self.users, LEAST)
        while left := self.count - counts.sum():
            free = np.where(counts < most, shares, 0)
            counts = np.minimum(counts + g.multinomial(left, free / free.sum()), most)
        taken, step = [], max(1, AT_ONCE // self.items)
        for first in range(0, self.users, step):
            odds, wanted = log_odds[first : first + step], counts[first : first + step]
            order = np.argsort(-(odds + g.gumbel(size=odds.shape)), axis=1, kind="stable")
            taken.append(order[np.arange(self.items) < wanted[:, None]])
        return np.repeat(np.arange(self.users), counts), np.concatenate(taken)

    def _features(self, g: np.random.Generator, topic: Floats, columns: int) -> NDArray[np.float32]:
        """Noisy linear functions of topics, float32 [items, columns], of which a modality sees some more clearly."""
        seen = topic * g.permutation(np.linspace(0.2, 1.8, self.topics))
        values: Floats = seen @ g.normal(0, 1, (self.topics, columns))
        signal = (values - values.mean(axis=0)) / values.std()
        return np.asarray((signal + self.noise * g.normal(0, 1, signal.shape)).astype(np.float32))


def _falling(n: int, power: float) -> Floats:
    weights = (np.arange(1, n + 1) + n / HEAD) ** -power
    return np.asarray(weights / weights.sum(), np.float64)


def _labels(word: str, n: int) -> Array:
    return np.array([f"{word}-{k + 1:0{len(str(n))}d}" for k in range(n)])
