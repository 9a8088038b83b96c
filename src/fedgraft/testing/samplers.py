"""Laws of samplers: of the half at a client, and of the half at the server where there is one."""

import copy
from typing import Any

import numpy as np

from fedgraft import contracts
from fedgraft.contracts import randomness
from fedgraft.experiment.recipes import discovery
from fedgraft.testing import guided_samplers
from fedgraft.testing.comparison import equal, travelled
from fedgraft.testing.form import check_form
from fedgraft.testing.laws import Law, Laws, check, expect, for_all, strategies
from fedgraft.wire.layouts import Layout

LAWS: Laws[contracts.Sampler[Any]] = Laws()
NOTHING = np.array([], np.int64)


def check_sampler(cls: type[contracts.Sampler[Any]], /, **options: Any) -> None:
    """Hold a sampler with these options to all laws; raise `AssertionError` with the class, the law, what was seen."""
    check(laws(cls, **options))


def laws(cls: type[contracts.Sampler[Any]], /, **options: Any) -> list[Law[Any]]:
    """Return the laws of a sampler with these options, to be called one by one."""
    return [
        *LAWS.held(cls, lambda: cls(**options)),
        *guided_samplers.LAWS.held(cls, lambda: guided_samplers.fitted(cls(**options))),
    ]


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


@LAWS.having(contracts.LayeredSampler)
def one_that_is_fitted_stays_as_it_is_when_it_is_stored_and_fitted_again(sampler: contracts.Sampler[Any]) -> None:
    """Keep in its options what it was fitted to."""
    assert isinstance(sampler, contracts.LayeredSampler)
    for layers in (0, 1, 3):
        fitted = sampler.fitted(layers)
        stored = discovery.construct(type(fitted), "sampler", discovery.options_of(fitted))
        expect(stored == fitted, "the options must tell what a sampler was fitted to", stored, fitted)
        expect(stored.fitted(layers) == stored, "fitting twice must be fitting once", stored.fitted(layers), stored)


@LAWS.having(contracts.ObservingSampler)
def a_look_at_all_losses_changes_nothing_given_and_its_state_survives_the_wire(sampler: contracts.Sampler[Any]) -> None:
    """Return a state that can be stored, and leave the old one and the losses as they are."""
    assert isinstance(sampler, contracts.ObservingSampler)
    expect(type(sampler.observes) is bool, "observes must be a bool", sampler.observes)
    for seed in range(5):
        runs = [_train(sampler, seed, 30, 1, passes=4, resume=resume, looks=True) for resume in (False, True)]
        whole, resumed = ([_told(draw) for draw in run] for run in runs)
        expect(whole == resumed, "a state that is resumed after a look must give equal draws", resumed, whole)


@LAWS.having(contracts.RefreshingSampler)
def refreshes_are_never_more_than_promised(sampler: contracts.Sampler[Any]) -> None:
    """Ask for rows in a round at most as often as `refreshes` says, whatever the server's half tells."""
    assert isinstance(sampler, contracts.RefreshingSampler)

    def holds(seed: int, examples: int, epochs: int) -> None:
        most = sampler.refreshes(epochs)
        expect(type(most) is int and most >= 0, "refreshes must be an int >= 0", most)
        guidance = guided_samplers.some_guidance(sampler, seed, epochs)
        state: Any = sampler.init(examples)
        for round in range(3):
            drawn, state = _passes(sampler, state, contracts.Stage(guidance=guidance), examples, epochs, seed + round)
            refreshes = sum(draw.refresh for draw in drawn)
            expect(refreshes <= most, f"a round of {epochs} epochs must refresh at most {most} times", refreshes)

    st = strategies()
    for_all(holds, {"seed": st.integers(0, 2**32), "examples": st.integers(1, 60), "epochs": st.integers(1, 5)})


@LAWS.where(lambda cls: not issubclass(cls, contracts.RefreshingSampler))
def one_without_the_ability_never_refreshes(sampler: contracts.Sampler[Any]) -> None:
    """Leave `refresh` alone, unless it is a `RefreshingSampler`, which says how often."""
    drawn = _train(sampler, 0, 30, 1, passes=4)
    refreshes = sum(draw.refresh for draw in drawn)
    expect(refreshes == 0, "only a RefreshingSampler may draw with refresh", f"{refreshes} draws with refresh")


@LAWS.having(contracts.ReportingSampler)
def what_is_reported_is_finite_and_as_announced(sampler: contracts.Sampler[Any]) -> None:
    """Tell every scalar that it announces, also of a client without examples."""
    assert isinstance(sampler, contracts.ReportingSampler)
    for examples in (0, 1, 30):
        _, state = _passes(sampler, sampler.init(examples), contracts.Stage(), examples, 2, seed=1)
        report = sampler.report(state)
        expect(set(report) == sampler.reported, "report must tell what is announced", sorted(report))
        expect(all(np.isfinite(list(report.values()))), "what is reported must be finite", report)


@LAWS.having(contracts.SharedSampler)
def what_is_shared_is_taken_and_given_back(sampler: contracts.Sampler[Any]) -> None:
    """Give back what the server sent as long as nothing was learnt; the same names and shapes ever after."""
    assert isinstance(sampler, contracts.SharedSampler)
    first = sampler.first(np.random.default_rng(1))
    again = sampler.first(np.random.default_rng(1))
    expect(equal(first, again), "equal generators must draw equal arrays", again, first)
    if not first:
        return
    state = sampler.init(30)
    before = copy.deepcopy(state)
    taken = sampler.take(state, first)
    expect(equal(state, before), "take changed the state it was given", state, before)
    expect(equal(taken, travelled(taken)), "the wire must carry the state after it took", taken)
    expect(equal(sampler.give(taken), first), "what was taken must be given back", sampler.give(taken), first)
    _, later = _passes(sampler, taken, contracts.Stage(), 30, 3, seed=1)
    expect(Layout.of(sampler.give(later)) == Layout.of(first), "names and shapes must stay", sampler.give(later))


def _train(
    sampler: contracts.Sampler[Any],
    seed: int,
    examples: int,
    blocks: int,
    passes: int,
    resume: bool = False,
    looks: bool = False,
) -> list[contracts.Draw]:
    """Return the draws of some passes over random blocks of random losses; every call is checked."""
    g, world = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    cut = np.array_split(np.arange(examples), blocks)
    state = sampler.init(examples)
    drawn: list[contracts.Draw] = []
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


def _passes(
    sampler: contracts.Sampler[Any], state: Any, stage: contracts.Stage, examples: int, epochs: int, seed: int
) -> tuple[list[contracts.Draw], Any]:
    """Return the draws of a round over one block, and the state after it."""
    g, world = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    state = _observed(sampler, state, world.random(examples).astype(np.float32))
    drawn: list[contracts.Draw] = []
    for epoch in range(epochs):
        state = _watched(sampler, state, epoch, examples, world)
        for draw in sampler.draw(state, np.arange(examples), contracts.Stage(epoch, stage.guidance), g):
            _check_draw(draw, np.arange(examples))
            state = _updated(sampler, state, draw, world.random(len(draw.examples)).astype(np.float32))
            drawn.append(draw)
    return drawn, state


def _updated(sampler: contracts.Sampler[Any], state: Any, draw: contracts.Draw, losses: Any) -> Any:
    """Return the state after a step; nothing given may change."""
    before, original = copy.deepcopy(state), losses.copy()
    after = sampler.update(state, draw, losses)
    expect(equal(state, before), "update changed the state it was given", state, before)
    expect(np.array_equal(losses, original), "update changed the losses it was given", losses, original)
    return after


def _observed(sampler: contracts.Sampler[Any], state: Any, losses: Any) -> Any:
    """Return the state after a look, of a sampler that looks; nothing given may change."""
    if not isinstance(sampler, contracts.ObservingSampler):
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


def _check_draw(draw: contracts.Draw, block: contracts.Indices) -> None:
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


def _told(draw: contracts.Draw) -> tuple[Any, ...]:
    """All that a draw says, as values that can be compared."""
    arrays = (None if each is None else each.tolist() for each in (draw.examples, draw.weights, draw.ahead))
    return (*arrays, draw.refresh, draw.neighbours, draw.seed)
