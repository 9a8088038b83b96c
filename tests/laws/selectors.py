"""Laws of selectors and of those that draw each client by its own coin."""

import numpy as np

from fedgraft.testing import selectors
from fedgraft.testing.laws import Laws, expect
from fedgraft.testing.selectors import Case, World

LAWS: Laws[Case] = Laws()


def laws(cls, /, **options):
    """The laws of a selector with these options, to be called one by one."""
    return [*selectors.laws(cls, **options), *LAWS.held(cls, lambda: Case(cls(**options)))]


@LAWS.where(lambda cls: cls.by_coins)
def a_share_is_a_probability(case: Case) -> None:
    """Tell a probability of one client, or of many, and always the same."""
    for clients in (1, 2, 3, 10, 1000):
        share = case.selector.share(clients)
        expect(0 < share <= 1, f"the share of {clients} clients must be in (0, 1]", share)
        expect(share == case.selector.share(clients), "the share must not change", share)


@LAWS.where(lambda cls: cls.by_coins)
def all_who_were_drawn_train(case: Case) -> None:
    """Leave nobody out whom coins have drawn, without a budget: others would be drawn more seldom than is claimed."""
    for clients in (1, 3, 10):
        world = World(clients, clients, unavailable=0.5)
        for round in range(1, 11):
            view = world.view(round)
            chosen = case.selector.select(case.selector.init(view), view, np.random.default_rng(round)).clients
            there = tuple(np.flatnonzero(view.available).tolist())
            expect(chosen == there, "all who were drawn must train", chosen, there)
