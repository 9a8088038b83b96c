"""Laws of samplers: of the half at a client."""

import copy
from typing import Any

import numpy as np

from fedgraft import contracts
from fedgraft.contracts import randomness
from fedgraft.testing.comparison import equal, travelled
from fedgraft.testing.form import check_form
from fedgraft.testing.laws import Law, Laws, check, expect, for_all, strategies

LAWS: Laws[contracts.Sampler[Any]] = Laws()
NOTHING = np.array([], np.int64)


def check_sampler(cls: type[contracts.Sampler[Any]], /, **options: Any) -> None:
    """Hold a sampler with these options to all laws; raise `AssertionError` with the class, the law, what was seen."""
    check(laws(cls, **options))


def laws(cls: type[contracts.Sampler[Any]], /, **options: Any) -> list[Law[contracts.Sampler[Any]]]:
    """Return the laws of a sampler with these options, to be called one by one."""
    return LAWS.held(cls, lambda: cls(**options))


@LAWS.every
def is_frozen_and_documented(sampler: contracts.Sampler[Any]) -> None:
    """Be a frozen dataclass whose documentation names source, state and cost."""
    check_form(type(sampler), contracts.Sampler, ("Source:", "Differs:", "State", "Cost:"))


@LAWS.every
def draws_lie_within_their_block_and_nothing_given_changes(sampler: contracts.Sampler[Any]) -> None:
    """Draw distinct examples of the block alone, with a weight each or none, and change nothing that is given."""

    def holds(seed: int, examples: int, blocks: int) -> None:
        drawn = _train(sampler, seed, examples, blocks, passes=4)
        expect(drawn, "a client with examples must have something to learn", drawn)

    st = strategies()
    for_all(holds, {"seed": st.integers(0, 2**32), "examples": st.integers(1, 60), "blocks": st.integers(1, 4)})


@LAWS.every
def equal_generators_and_a_resumed_state_give_equal_draws(sampler: contracts.Sampler[Any]) -> None:
    """Draw the same again, also from a state that was stored and read."""

    def run(resume: bool) -> list[tuple[Any, ...]]:
        return [_told(draw) for draw in _train(sampler, 3, 50, 2, passes=6, resume=resume)]

    first, again, resumed = run(False), run(False), run(True)
    expect(first == again, "equal states and generators must give equal draws", again, first)
    expect(first == resumed, "a state that is resumed must give equal draws", resumed, first)


@LAWS.every
def a_generator_made_lazily_gives_the_same_draws(sampler: contracts.Sampler[Any]) -> None:
    """Draw from the generator that is handed over, which is made when it is first used."""
    block = np.arange(5)
    generators = randomness.generator(0, "law"), randomness.lazy(0, "law")
    made, lazy = ([_told(d) for d in sampler.draw(sampler.init(5), block, contracts.Stage(), g)] for g in generators)
    expect(made and made == lazy, "a generator made lazily must give the same draws", lazy, made)


@LAWS.every
def an_empty_block_is_survived(sampler: contracts.Sampler[Any]) -> None:
    """Draw nothing from nothing."""
    drawn = list(sampler.draw(sampler.init(5), NOTHING, contracts.Stage(), np.random.default_rng(0)))
    expect(drawn == [], "an empty block must give no draws", drawn)


@LAWS.where(lambda cls: cls.observes is not contracts.Sampler.observes)
def a_look_at_all_losses_changes_nothing_given_and_its_state_survives_the_wire(sampler: contracts.Sampler[Any]) -> None:
    """Return a state that can be stored, and leave the old one and the losses as they are."""
    expect(type(sampler.observes) is bool, "observes must be a bool", sampler.observes)
    for seed in range(5):
        runs = [_train(sampler, seed, 30, 1, passes=4, resume=resume, looks=True) for resume in (False, True)]
        whole, resumed = ([_told(draw) for draw in run] for run in runs)
        expect(whole == resumed, "a state that is resumed after a look must give equal draws", resumed, whole)


@LAWS.where(lambda cls: not issubclass(cls, contracts.GuidedSampler))
def refreshes_are_never_more_than_promised(sampler: contracts.Sampler[Any]) -> None:
    """Ask for rows in a round at most as often as `refreshes` says; never, where it says nothing."""

    def holds(seed: int, examples: int, epochs: int) -> None:
        most = sampler.refreshes(epochs)
        expect(type(most) is int and most >= 0, "refreshes must be an int >= 0", most)
        drawn, _ = one_round(sampler, sampler.init(examples), contracts.Stage(), examples, epochs, seed)
        refreshes = sum(draw.refresh for draw in drawn)
        expect(refreshes <= most, f"a round of {epochs} epochs must refresh at most {most} times", refreshes)

    st = strategies()
    for_all(holds, {"seed": st.integers(0, 2**32), "examples": st.integers(1, 60), "epochs": st.integers(1, 5)})


def _train(
    sampler: contracts.Sampler[Any],
    seed: int,
    examples: int,
    blocks: int,
    passes: int,
    resume: bool = False,
    looks: bool = False,
) -> list[contracts.Batch]:
    """Return the draws of some passes over random blocks of random losses; every call is checked."""
    g, world = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    cut = np.array_split(np.arange(examples), blocks)
    state = sampler.init(examples)
    drawn: list[contracts.Batch] = []
    for made in range(passes):
        state = _watched(sampler, state, made, examples, world)
        if looks:
            state = _observed(sampler, state, world.random(examples).astype(np.float32))
        for block in cut:
            before, seen = copy.deepcopy(state), block.copy()
            draws = sampler.draw(state, block, contracts.Stage(), g)
            expect(equal(state, before), "draw changed the state it was given", state, before)
            expect(np.array_equal(block, seen), "draw changed the block it was given", block, seen)
            for draw in draws:
                _check_draw(draw, block)
                state = _updated(sampler, state, draw, world.random(len(draw.examples)).astype(np.float32))
            drawn += draws
        expect(equal(state, travelled(state)), "the wire must carry the state", state)
        if resume:
            state = travelled(state)
    return drawn


def one_round(
    sampler: contracts.Sampler[Any], state: Any, stage: contracts.Stage, examples: int, epochs: int, seed: int
) -> tuple[list[contracts.Batch], Any]:
    """Return the draws of a round over one block, and the state after it."""
    g, world = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    state = _observed(sampler, state, world.random(examples).astype(np.float32))
    drawn: list[contracts.Batch] = []
    for epoch in range(epochs):
        state = _watched(sampler, state, epoch, examples, world)
        for draw in sampler.draw(state, np.arange(examples), contracts.Stage(epoch, stage.guidance), g):
            _check_draw(draw, np.arange(examples))
            state = _updated(sampler, state, draw, world.random(len(draw.examples)).astype(np.float32))
            drawn.append(draw)
    return drawn, state


def _updated(sampler: contracts.Sampler[Any], state: Any, draw: contracts.Batch, losses: Any) -> Any:
    """Return the state after a step; nothing given may change."""
    before, original = copy.deepcopy(state), losses.copy()
    after = sampler.update(state, draw, losses)
    expect(equal(state, before), "update changed the state it was given", state, before)
    expect(np.array_equal(losses, original), "update changed the losses it was given", losses, original)
    return after


def _observed(sampler: contracts.Sampler[Any], state: Any, losses: Any) -> Any:
    """Return the state after a look, of a sampler that looks; nothing given may change."""
    if not sampler.observes:
        return state
    before, original = copy.deepcopy(state), losses.copy()
    after = sampler.observe(state, losses)
    expect(equal(state, before), "observe changed the state it was given", state, before)
    expect(np.array_equal(losses, original), "observe changed the losses it was given", losses, original)
    expect(equal(after, travelled(after)), "the wire must carry the state after a look", after)
    return after


def _watched(sampler: contracts.Sampler[Any], state: Any, epoch: int, examples: int, world: np.random.Generator) -> Any:
    """Return the state after a look at what a model makes of examples; nothing given may change."""
    if not isinstance(sampler, contracts.ActiveSampler):
        return state
    shares = world.dirichlet(np.ones(3), examples).astype(np.float32)
    seen = contracts.Observations(
        losses=-np.log(shares[:, 0]),
        probabilities=shares,
        hidden=world.normal(size=(examples, 4)).astype(np.float32),
        correct=shares.argmax(1) == 0,
        centrality=world.random(examples).astype(np.float32),
        labels=np.zeros(examples, np.int64),
    )
    before, original = copy.deepcopy(state), copy.deepcopy(seen)
    after = sampler.watch(state, seen, contracts.Stage(epoch), np.random.default_rng([epoch, examples]))
    expect(equal(state, before), "watch changed the state it was given", state, before)
    expect(equal(list(seen), list(original)), "watch changed what it was shown", seen)
    expect(equal(after, travelled(after)), "the wire must carry the state after a look", after)
    return after


def _check_draw(draw: contracts.Batch, block: contracts.Indices) -> None:
    expect(draw.examples.dtype.kind == "i", "examples must be integers", draw.examples.dtype)
    expect(len(draw.examples) > 0, "a step must have examples", draw)
    expect(np.isin(draw.examples, block).all(), "examples of another block may not share the step", draw.examples)
    distinct = len(np.unique(draw.examples)) == len(draw.examples)
    expect(distinct, "an example must count once in a step", draw.examples)
    if draw.weights is not None:
        expect(draw.weights.dtype == np.float32, "weights must be float32", draw.weights.dtype)
        fits = draw.weights.shape == draw.examples.shape
        expect(fits, "there must be a weight for each example", draw.weights.shape, draw.examples.shape)
        expect(np.isfinite(draw.weights).all(), "weights must be finite", draw.weights)
        expect((draw.weights >= 0).all(), "weights must be >= 0", draw.weights)
    if draw.ahead is not None:
        expect(draw.refresh, "ahead must come with refresh", draw)
        expect(np.isin(draw.ahead, block).all(), "ahead must lie within the block", draw.ahead)
    counts = all(type(number) is int and number >= 0 for number in (draw.seed, *draw.neighbours))
    expect(counts, "seed and neighbours must be Python ints >= 0", draw.seed, draw.neighbours)


def _told(draw: contracts.Batch) -> tuple[Any, ...]:
    """All that a draw says, as values that can be compared."""
    arrays = (None if each is None else each.tolist() for each in (draw.examples, draw.weights, draw.ahead))
    return (*arrays, draw.refresh, draw.neighbours, draw.seed)
