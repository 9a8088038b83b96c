"""Samplers from outside: one that keeps the laws passes, one that breaks a law fails with its name."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedgraft.contracts import Batch, GuidedSampler, Sampler
from helpers.broken_laws import breaks, broken
from laws.samplers import check_sampler


@dataclass(frozen=True)
class Pairs(GuidedSampler[dict]):
    """Examples in pairs, as many passes as the server says.

    Source: this test. Differs: nothing known.
    State: looks: how often all losses were seen.
    Cost: a scalar to each client.
    """

    @property
    def guidance(self):
        return ("share",)

    def refreshes(self, epochs):
        return epochs

    @property
    def observes(self):
        return True

    def init(self, examples):
        return {"looks": np.zeros(1)}

    def observe(self, state, losses):
        return {"looks": state["looks"] + 1}

    def draw(self, state, block, stage, g):
        parts = np.array_split(block, max(1, len(block) // 2)) if len(block) else []
        return [Batch(part, refresh=number == 0) for number, part in enumerate(parts)]

    def guide(self, state, view, cohort, g):
        rounds = 0 if state is None else len(state["scores"])
        return {client: {"share": rounds + float(g.random())} for client in cohort}

    def learn(self, state, view, outcome, g):
        known = [] if state is None else state["scores"]
        return {"scores": [*known, outcome.score]}


class TooFresh(Pairs):
    def draw(self, state, block, stage, g):
        return [replace(draw, refresh=True) for draw in super().draw(state, block, stage, g)]


class Outsider(Pairs):
    def draw(self, state, block, stage, g):
        return [replace(draw, examples=draw.examples + 1) for draw in super().draw(state, block, stage, g)]


class Weighty(Pairs):
    def draw(self, state, block, stage, g):
        return [replace(draw, weights=np.ones(1, np.float32)) for draw in super().draw(state, block, stage, g)]


class Staring(Pairs):
    def observe(self, state, losses):
        state["looks"] += 1
        return state


class Forgetful(Pairs):
    def guide(self, state, view, cohort, g):
        return dict(list(super().guide(state, view, cohort, g).items())[1:])


class Chatty(Pairs):
    def guide(self, state, view, cohort, g):
        return {client: {**told, "more": 1.0} for client, told in super().guide(state, view, cohort, g).items()}


class Infinite(Pairs):
    def guide(self, state, view, cohort, g):
        return {client: {"share": float("inf")} for client in cohort}


class Moody(Pairs):
    def guide(self, state, view, cohort, g):
        return super().guide(state, view, cohort, np.random.default_rng())


class Overwriting(Pairs):
    def learn(self, state, view, outcome, g):
        state = {"scores": []} if state is None else state
        state["scores"].append(outcome.score)
        return state


class Tupled(Pairs):
    def learn(self, state, view, outcome, g):
        return {"scores": (*(() if state is None else state["scores"]), outcome.score)}


GUIDING = "guidance_is_a_finite_number_of_every_name_for_each_client_of_the_cohort"
LEARNING = "learning_changes_no_state_and_what_is_learnt_survives_the_wire"


def test_a_sampler_from_outside_keeps_the_laws():
    check_sampler(Pairs)


@pytest.mark.parametrize(
    ("cls", "law"),
    [
        (TooFresh, "refreshes_are_never_more_than_promised"),
        (Outsider, "draws_lie_within_their_block_and_nothing_given_changes"),
        (Weighty, "draws_lie_within_their_block_and_nothing_given_changes"),
        (Staring, "a_look_at_all_losses_changes_nothing_given_and_its_state_survives_the_wire"),
        (Forgetful, GUIDING),
        (Chatty, GUIDING),
        (Infinite, GUIDING),
        (Moody, "guiding_changes_no_state_and_depends_on_nothing_else"),
        (Overwriting, LEARNING),
        (Tupled, LEARNING),
    ],
)
def test_a_sampler_that_breaks_a_law_is_caught(cls, law):
    assert breaks(check_sampler, cls, law)


@dataclass(frozen=True)
class Unannounced(Sampler[None]):
    """All examples, with rows asked for without a word of how often.

    Source: this test. Differs: nothing known. State: none. Cost: nothing.
    """

    def init(self, examples):
        return None

    def draw(self, state, block, stage, g):
        return [Batch(block, refresh=True)] if len(block) else []


def test_a_sampler_that_refreshes_without_the_ability_is_caught():
    assert broken(check_sampler, Unannounced) == ["refreshes_are_never_more_than_promised"]
