"""Selectors from outside: one that keeps the laws passes, one that breaks a law fails with its name."""

from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np
import pytest

from fedgraft.contracts import Selection, Selector
from fedgraft.testing import check_selector
from helpers.broken_laws import breaks, broken


class Turns(TypedDict):
    last: np.ndarray


@dataclass(frozen=True)
class InTurn(Selector[Turns]):
    """Clients take turns.

    Source: this test. Differs: nothing known.

    Args:
        clients: how many train.
    State: last: int64 [N], the round in which a client was last selected.
    Needs: nothing.
    Cost: nothing.
    """

    clients: int = 2

    def init(self, view):
        return {"last": np.zeros(view.clients, np.int64)}

    def select(self, state, view, g):
        chosen, left = [], view.bytes_left
        for client in np.argsort(state["last"], kind="stable").tolist():
            price = int(view.bytes_per_client[client])
            if len(chosen) < self.clients and view.available[client] and (left is None or price <= left):
                chosen.append(client)
                left = None if left is None else left - price
        return Selection(tuple(sorted(chosen)))

    def update(self, state, view, outcome):
        last = state["last"].copy()
        last[list(outcome.selected)] = view.round
        return {"last": last}


class Mutating(InTurn):
    def update(self, state, view, outcome):
        state["last"][list(outcome.selected)] = view.round
        return state


class Spendthrift(InTurn):
    def select(self, state, view, g):
        return super().select(state, replace(view, bytes_left=None), g)


@dataclass
class Thawed(Selector[None]):
    __doc__ = InTurn.__doc__

    clients: int = 2

    def init(self, view):
        return None

    def select(self, state, view, g):
        return InTurn(self.clients).select({"last": np.zeros(view.clients)}, view, g)


@dataclass(frozen=True)
class Undocumented(InTurn):
    """Clients take turns."""


class Greedy(InTurn):
    def select(self, state, view, g):
        return Selection(tuple(range(view.clients)))


class Told(InTurn):
    def explanation(self, state, view):
        age = np.where(state["last"] > 0, view.round - state["last"], np.nan)
        return {"rounds since it trained": age, "score": age}


class Numbered(Told):
    def explanation(self, state, view):
        return {"score": state["last"]}


class Endless(Told):
    def explanation(self, state, view):
        return {"score": np.where(state["last"] > 0, 1.0, np.inf)}


class Forgetful(Told):
    def explanation(self, state, view):
        state["last"][:] = 0
        return super().explanation(state, view)


class Moody(Told):
    def explanation(self, state, view):
        return {"score": np.random.default_rng().random(view.clients)}


class Few(Told):
    def explanation(self, state, view):
        return {"score": np.flatnonzero(view.available).astype(float)[:1]}


def test_a_selector_from_outside_keeps_the_laws():
    check_selector(InTurn)
    check_selector(InTurn, clients=3)
    check_selector(Told)


@pytest.mark.parametrize("cls", [Numbered, Endless, Forgetful, Moody, Few])
def test_terms_that_are_none_are_caught(cls):
    assert breaks(check_selector, cls, "terms_are_of_every_client")


def test_a_selector_that_changes_its_state_is_caught():
    for law in ("runs_sixty_rounds", "budget_is_a_promise"):
        assert breaks(check_selector, Mutating, law)


def test_a_selector_that_exceeds_the_budget_is_caught():
    assert breaks(check_selector, Spendthrift, "budget_is_a_promise")
    assert "runs_sixty_rounds" not in broken(check_selector, Spendthrift)


@pytest.mark.parametrize("cls", [Thawed, Undocumented])
def test_a_selector_that_is_not_frozen_or_not_documented_is_caught(cls):
    assert broken(check_selector, cls) == ["hyper_parameters_are_frozen_and_documented"]


def test_a_selector_of_clients_that_cannot_be_reached_is_caught():
    assert breaks(check_selector, Greedy, "runs_sixty_rounds")


def test_options_that_a_class_refuses_are_no_broken_law():
    with pytest.raises(TypeError, match="unexpected keyword"):
        check_selector(InTurn, speed=3)
