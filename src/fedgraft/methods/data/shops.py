"""Made-up shops with shoppers, products, tastes and friends, for demonstrations and tests without any download."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from fedgraft.contracts.data import ClientData, Clients
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt, OneOf, PositiveInt, Proportion
from fedgraft.domains.ratings.dealing import deal
from fedgraft.domains.ratings.shards import PARTITIONS, Ids, Ratings, RatingShard
from fedgraft.domains.ratings.tables import OwnRatings
from fedgraft.errors import require
from fedgraft.wire.layouts import Array

Floats = NDArray[np.float64]

SCALE = (1.0, 5.0)
MEAN, USER_SPREAD, ITEM_SPREAD = 3.8, 0.4, 0.4
"""Stars, and the standard deviations of biases: near those of Ciao."""
FACTORS = 4
"""Length of tastes and characters: few enough that 20 ratings a user tell something about them."""
EAGERNESS = 1.0
"""How much more people rate what suits them: log-odds per standard deviation of taste . character."""
HEAD = 50
"""A fiftieth of users (items, categories) has about equal activity; after it, activity falls as 1 / rank."""


@dataclass(frozen=True)
class Shops(ClientData[RatingShard], OwnRatings):
    """A generator of shops: users in circles of friends rate items of categories; a client holds whole categories.

    A user's taste is the circle's plus an own part, an item's character is its category's plus an own part, both
    vectors; a rating is mean + user bias + item bias + `taste` * (taste . character) + noise, rounded to 1..5. People
    rate what suits them more often (so clients differ), few people and few items get most ratings (Zipf), and most
    trust links stay inside a circle (homophily). So biases beat the mean, factors beat biases, and friends tell
    something.

    Source: none; orders of magnitude (ratings per user and item, 1..5 with mean near 4, links per user) after Ciao.
    Differs: nothing known.

    Args:
        users: number of users, >= 2.
        items: number of items, >= categories.
        categories: number of categories, >= 1.
        links: number of trust links drawn, >= 0; loops and repeats go, so somewhat fewer stay.
        count: number of ratings, >= categories, at most a quarter of users x items.
        circles: number of circles of friends, 1..users.
        homophily: share of trust links inside a circle, in [0, 1].
        own: share of a taste's (character's) variance that is not its circle's (category's), in [0, 1].
        taste: standard deviation of taste . character in stars, >= 0.
        noise: standard deviation of what nothing explains, in stars, >= 0.
        clients: number of clients, 1..categories.
        partition: "average", "skewed" or "extreme", how unequally categories are dealt.
    """

    task: ClassVar[str] = "rating"

    users: Annotated[int, Ge(2)] = 2000
    items: int = 3000
    categories: PositiveInt = 20
    links: NonNegativeInt = 16000
    count: int = 40000
    circles: int = 25
    homophily: Proportion = 0.8
    own: Proportion = 0.3
    taste: NonNegativeFloat = 0.8
    noise: NonNegativeFloat = 0.7
    clients: PositiveInt = 8
    partition: Annotated[str, OneOf(PARTITIONS)] = "average"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.items >= self.categories, "Shops.items", f">= {self.categories} (categories)", self.items)
        n = self.clients
        larger = (
            f"; for {n}, say data.categories={n} data.items={2 * n} data.users={n} data.count={40 * n}, or the like"
        )
        require(n <= self.categories, "Shops.clients", f"1..{self.categories} (categories){larger}", n)
        most = self.users * self.items // 4
        require(self.categories <= self.count <= most, "Shops.count", f"{self.categories}..{most}", self.count)
        require(1 <= self.circles <= self.users, "Shops.circles", f"1..{self.users} (users)", self.circles)

    def ratings(self, seed: int) -> Ratings:
        """Read the whole set, before it is partitioned."""
        g = generator(seed, "shops")
        circle = g.integers(0, self.circles, self.users)
        more = g.choice(self.categories, self.items - self.categories, p=_zipf(self.categories))
        category = np.concatenate([np.arange(self.categories), more])
        tastes = _mixture(g, circle, self.circles, own=self.own)
        characters = _mixture(g, category, self.categories, own=self.own)
        user, item = self._pairs(g, tastes, characters, category)
        product = (tastes[user] * characters[item]).sum(axis=1)
        stars = (
            MEAN
            + g.normal(0, USER_SPREAD, self.users)[user]
            + g.normal(0, ITEM_SPREAD, self.items)[item]
            + self.taste * product
            + g.normal(0, self.noise, len(user))
        )
        return Ratings(
            user=user,
            item=item,
            category=category[item],
            rating=np.clip(np.rint(stars), *SCALE).astype(np.float32),
            trust=self._trust(g, circle),
            users=self.users,
            items=self.items,
            categories=self.categories,
            scale=SCALE,
            user_ids=_labels("user", self.users),
            item_ids=_labels("item", self.items),
            category_names=tuple(_labels("category", self.categories).tolist()),
        )

    def clients_of(self, seed: int) -> Clients[RatingShard]:
        """Return the clients, parts of one whole; `seed` makes the shops as well as their partition and split."""
        return deal(self.ratings(seed), self.clients, self.partition, seed)

    def _pairs(self, g: np.random.Generator, tastes: Floats, characters: Floats, category: Ids) -> tuple[Ids, Ids]:
        """`count` distinct pairs (user, item); every category has one."""
        activity = g.permutation(_zipf(self.users))
        popularity = g.permutation(_zipf(self.items))
        first = np.unique(category, return_index=True)[1]
        pairs = g.integers(0, self.users, self.categories) * self.items + first
        while len(pairs) < self.count:
            tries = 4 * (self.count - len(pairs)) + self.categories
            user = g.choice(self.users, tries, p=activity)
            item = g.choice(self.items, tries, p=popularity)
            suits = (tastes[user] * characters[item]).sum(axis=1)
            eager = g.random(tries) < 1 / (1 + np.exp(-EAGERNESS * suits))
            pairs = np.concatenate([pairs, user[eager] * self.items + item[eager]])
            kept = np.unique(pairs, return_index=True)[1]
            pairs = pairs[np.sort(kept)]
        return np.divmod(pairs[: self.count], self.items)

    def _trust(self, g: np.random.Generator, circle: Ids) -> Ids:
        """int64 [2, at most links], without loops and repeats."""
        order = np.argsort(circle, kind="stable")
        sizes = np.bincount(circle, minlength=self.circles)
        starts = np.cumsum(sizes) - sizes
        source = g.choice(self.users, self.links, p=g.permutation(_zipf(self.users)))
        place = starts[circle[source]] + np.floor(g.random(self.links) * sizes[circle[source]]).astype(np.int64)
        anybody = g.integers(0, self.users, self.links)
        target = np.where(g.random(self.links) < self.homophily, order[place], anybody)
        others = source != target
        links = np.unique(source[others] * self.users + target[others])
        return np.stack(np.divmod(links, self.users))


def _zipf(n: int) -> Floats:
    weights: Floats = 1 / (np.arange(1, n + 1) + n / HEAD)
    weights /= weights.sum()
    return weights


def _mixture(g: np.random.Generator, group: Ids, groups: int, own: float) -> Floats:
    """[len(group), FACTORS]: the group's vector plus an own one with share `own` of the variance.

    The product of two such vectors has variance 1.
    """
    centres = g.normal(0, 1, (groups, FACTORS))
    mixed: Floats = np.sqrt(1 - own) * centres[group] + np.sqrt(own) * g.normal(0, 1, (len(group), FACTORS))
    mixed /= FACTORS**0.25
    return mixed


def _labels(word: str, n: int) -> Array:
    return np.array([f"{word}-{i + 1:0{len(str(n))}d}" for i in range(n)])
