"""Canaries in sums with noise: which examples, clients or units of statistics are in them."""

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from fedgraft.contracts import Indices, Outcome, Selection, Selector, Sharing, View, randomness
from fedgraft.contracts.abilities.clipping import ClippedGradientTask
from fedgraft.contracts.abilities.summed_statistics import SummedTask
from fedgraft.engine.client.clipped_gradients import PART, shortened
from fedgraft.engine.client.own_secrets import noise_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.options import Privacy
from fedgraft.engine.privacy.private_sums import flat, numbers_of
from fedgraft.engine.privacy.secure_sum import SecureSum
from fedgraft.experiment.attacking.guesses import Floats, Marked, check_enough, marked_examples
from fedgraft.experiment.attacking.listening import Heard, heard, models, unscored
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.discovery import find
from fedgraft.experiment.running.loops import running
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.wire.layouts import Arrays, Layout

_VARIANCE: Final = 0.25
"""Of a fair coin."""
_FLAT: Final = 1e-11
"""Share of the largest eigenvalue below which the parts do not span a direction."""
_LEAST_NOISE: Final = 1e-10
"""Variance of noise, as a share of the mean square of what is to be explained, below which it is rounding."""
_Task = ClippedGradientTask[Any, Any]
_WHOLE: Final = 1e12
"""A length to which no gradient is shortened."""
_TRIES = 4
"""Units that are looked at for each canary: their parts may not touch each other."""


@dataclass
class Evidence:
    """What all sums say of the canaries, added up sum by sum: parts themselves are not kept.

    Args:
        canaries: how many there are, n.
        gram: float64 [n, n], inner products of their parts.
        along: float64 [n], of each part and what is lacking.
        square: of what is lacking, summed over all numbers.
        numbers: how many those are.
    """

    canaries: int
    gram: Floats = field(init=False)
    along: Floats = field(init=False)
    square: float = 0.0
    numbers: int = 0

    def __post_init__(self) -> None:
        self.gram, self.along = np.zeros((self.canaries, self.canaries)), np.zeros(self.canaries)

    def add(self, parts: Floats, lacking: Floats) -> None:
        """Add a sum.

        Args:
            parts: float64 [n, numbers], each canary's; zero for one whose client had no part in the sum.
            lacking: float64 [numbers], what is expected of all units less what was decoded.
        """
        self.gram += parts @ parts.T
        self.along += parts @ lacking
        self.square += float(lacking @ lacking)
        self.numbers += len(lacking)

    def weighed(self) -> "Weighed":
        """Return what it comes to; the noise is estimated, so that the attacker need not believe what is claimed.

        The variance is the most likely one, with coins that are thought of as normal.
        """
        values, vectors = np.linalg.eigh(self.gram)
        values = np.maximum(values, 0.0)
        # What is lacking beyond half of all canaries' parts, along the parts, and its square.
        along = self.along - 0.5 * self.gram.sum(1)
        square = self.square - float(self.along.sum()) + 0.25 * float(self.gram.sum())
        spanned = values > _FLAT * max(values[-1], 1e-300)
        own = np.square(vectors.T @ along)[spanned] / values[spanned]
        rest, others = max(0.0, square - float(own.sum())), max(0, self.numbers - int(spanned.sum()))
        spread = _VARIANCE * values[spanned]
        scale = max(square / max(1, self.numbers), 1e-300)

        def unlikely(log_noise: float) -> float:
            noise = np.exp(log_noise)
            inside = np.log(noise + spread) + own / (noise + spread)
            return float(others * log_noise + rest / noise + inside.sum())

        bounds = np.log(scale * _LEAST_NOISE), np.log(4 * scale)
        found = minimize_scalar(unlikely, bounds=bounds, method="bounded", options={"xatol": 1e-3})
        noise = float(np.exp(found.x))
        shrunk = 1 / (values + noise / _VARIANCE)
        guess = vectors @ (shrunk * (vectors.T @ along))  # of out - 1/2
        doubt = np.square(vectors) @ (noise * shrunk)
        return Weighed(-guess / doubt, noise, -float(found.fun) / 2)


@dataclass(frozen=True)
class Weighed:
    """Guesses.

    Args:
        scores: float64 [canaries], about the log of how much likelier it is that one was in than that it was left out.
        noise: variance of the noise of each number, as estimated.
        likelihood: log of how likely all that is, but for a constant: between two explanations the larger one counts.
    """

    scores: Floats
    noise: float
    likelihood: float


def gradient_canaries(run: FinishedRun, count: int) -> tuple[Marked, Floats, int]:
    """Train a run's recipe again with canaries; return these, a score of each, and how many sums were read.

    Scores are float64 [canaries], large for who was in. They are made of what the server knows and of all clients'
    data with all canaries: who was left out has no other part in them.
    """
    marked = marked_examples(run, count)
    rounds = heard(run.experiment, marked.trained)
    return marked, weighed_gradients(run, marked.whole, marked.rows, rounds).scores, len(rounds)


def weighed_gradients(
    run: FinishedRun, shards: Sequence[Any], rows: dict[int, Indices], rounds: Sequence[Heard]
) -> Weighed:
    """Return what sums of gradients say of some rows: of two explanations, the likelier one.

    Clients may shorten gradients as they should, or not at all; an attack that believes them would miss the latter.

    Args:
        run: its recipe and what clients were told.
        shards: of all clients, with all canaries in training.
        rows: {client: int64 [n], its canaries}.
        rounds: of a training that some canaries had no part in.
    """
    plan, task = run.plan, run.plan.task.ability(ClippedGradientTask)
    assert task is not None, "privacy of examples is for such a task"
    data = {k: plan.task.prepare(shard, run.memory(k).get("shared", {})) for k, shard in enumerate(shards)}
    places = {k: np.searchsorted(shards[k].rows("train"), mine) for k, mine in rows.items()}
    every = {k: np.arange(plan.task.examples(each)) for k, each in data.items()}
    canaries, model = sum(map(len, rows.values())), plan.build_model()
    lengths = plan.privacy.clip, _WHOLE
    found = [Evidence(canaries) for _ in lengths]
    for each, arrays in zip(rounds, models(plan, rounds), strict=True):
        model.load(arrays)
        parts = np.concatenate(
            [_each(task, plan.upload_layout, model.module, data[k], at, k in each.clients) for k, at in places.items()]
        )
        norms = np.linalg.norm(parts, axis=1)
        for evidence, longest in zip(found, lengths, strict=True):
            layout = plan.upload_layout
            total = sum(_summed(task, layout, model.module, data[k], every[k], longest) for k in each.clients)
            shortened = parts * (longest / np.maximum(norms, longest))[:, None]
            evidence.add(shortened, total - flat(each.total, plan.upload_layout))
    return max((evidence.weighed() for evidence in found), key=lambda weighed: weighed.likelihood)


def _each(task: _Task, layout: Layout, module: Any, data: Any, places: Indices, present: bool) -> Floats:
    """Gradients of some training examples downhill, not shortened, float64 [n, numbers]; zero for who is not there."""
    if not present:
        return np.zeros((len(places), numbers_of(layout)))
    found = task.each_gradient(module, data, places)
    return -np.concatenate([found[spec.name].reshape(len(places), -1) for spec in layout], axis=1)


def _summed(task: _Task, layout: Layout, module: Any, data: Any, examples: Indices, longest: float) -> Floats:
    """What a client that follows the protocol adds but for noise, float64 [numbers]."""
    total = np.zeros(numbers_of(layout))
    for at in range(0, len(examples), PART):
        found = task.clipped(module, data, examples[at : at + PART], longest)
        total -= flat(found, layout)
    return total


def client_canaries(run: FinishedRun, count: int) -> tuple[NDArray[np.bool_], Floats, int]:
    """Train a run's recipe again, with some clients' updates zero; return who was in, scores, and how many sums.

    Each client is a canary, or as many as `count` says. Who is left out trains, and sends noise alone.
    """
    experiment, clients = run.experiment, len(run.shards)
    check_enough(min(count, clients))
    g = randomness.generator(experiment.seed, "canaries")
    canaries = np.sort(g.choice(clients, min(count, clients), replace=False))
    inside = g.random(len(canaries)) < 0.5
    silenced = _silencing(experiment.plan.sharing, frozenset(canaries[~inside].tolist()))
    rounds = heard(replace(experiment, plan=replace(experiment.plan, sharing=silenced)), list(run.shards))
    return inside, weighed_updates(run, canaries.tolist(), rounds).scores, len(rounds)


def weighed_updates(run: FinishedRun, canaries: Sequence[int], rounds: Sequence[Heard]) -> Weighed:
    """Return what sums of updates say of some clients: of shortened updates and of whole ones, the likelier.

    The attacker knows all clients' data, so all of their updates of the models that were sent.
    """
    plan = run.plan
    found = [Evidence(len(canaries)) for _ in range(2)]
    for each, updates in zip(rounds, _replayed(run.experiment, run.shards, rounds), strict=True):
        for evidence, longest in zip(found, (each.length, np.inf), strict=True):
            cut = {k: flat(shortened(updates[k], longest), plan.upload_layout) for k in each.clients}
            parts = {k: each.share * numbers for k, numbers in cut.items()}  # where nobody tells who took part
            total = np.sum(list(parts.values()), axis=0)
            nothing = np.zeros(len(total))
            own = np.stack([parts.get(k, nothing) for k in canaries])
            evidence.add(own, total - flat(each.total, plan.upload_layout))
    return max((evidence.weighed() for evidence in found), key=lambda weighed: weighed.likelihood)


def _silencing(sharing: Sharing[Any], gone: frozenset[int]) -> Sharing[Any]:
    """Return a sharing method that does as another, but whose updates of some clients are zero."""
    kind: type = type(sharing)

    class Silencing(kind):  # type: ignore[misc]
        """The same method, of whose clients some send nothing."""

        def local_update(self, trainer: Any, received: Arrays, memory: Any) -> tuple[Arrays, Any]:
            """Train, and upload nothing of it."""
            upload, memory = super().local_update(trainer, received, memory)
            if trainer.client in gone:
                upload = {name: np.zeros_like(array) for name, array in upload.items()}
            return upload, memory

    made = copy.copy(sharing)
    object.__setattr__(made, "__class__", Silencing)
    return made


@dataclass(frozen=True)
class _Told(Selector[Any]):
    """Selects whom it is told, and keeps their updates."""

    reports: ClassVar[frozenset[str]] = frozenset({"update"})

    cohort: list[int] = field(default_factory=list)
    seen: dict[int, Arrays] = field(default_factory=dict)

    def init(self, view: View) -> Any:
        """Nothing."""
        return None

    def select(self, state: Any, view: View, g: np.random.Generator) -> Selection:
        """Who was in the sum."""
        return Selection(tuple(self.cohort))

    def update(self, state: Any, view: View, outcome: Outcome) -> Any:
        """Keep what they send."""
        self.seen.clear()
        self.seen.update(outcome.updates)
        return state


def _replayed(experiment: Job, shards: Sequence[Any], rounds: Sequence[Heard]) -> Collection[dict[int, Arrays]]:
    """Return all updates of each round's cohort, {client: update}: each client trains again from what it was sent."""
    identity, told = find("codecs", "identity")(), _Told()
    plan = replace(experiment.plan, privacy=Privacy(), secure_sum=SecureSum(), uplink=identity)
    again = replace(unscored(experiment), plan=plan, selector=told, server_optimizer=None)
    found = []
    with running(again, list(shards)) as (loop, _):
        state = loop.start()
        for each in rounds:
            state.sharing, told.cohort[:] = each.sharing, each.clients
            loop.step(state)
            found.append(dict(told.seen))
    return found


def summed_canaries(run: FinishedRun, count: int) -> tuple[NDArray[np.bool_], Floats]:
    """Return whether each canary was in the sum, bool [n], and a score, float64 [n], large for who seems to have been.

    A canary is a unit of some client, such as a rating. A coin decides whether it is left out as statistics are added
    up anew. The attacker knows all data: whatever the sum lacks along a unit's part speaks against it.
    """
    plan, shards = run.plan, list(run.shards)
    task = plan.summed
    assert task is not None, "whoever asks has looked"
    g = randomness.generator(run.experiment.seed, "canaries")
    layout = task.summed_layout
    whole = [flat(task.summed(shard, plan.privacy.unit, plan.privacy.clip), layout) for shard in shards]
    found = _chosen(plan, task, shards, whole, count, g)
    check_enough(len(found))
    inside = g.random(len(found)) < 0.5
    for client, shard in enumerate(shards):
        gone = [rows for (owner, rows, _), coin in zip(found, inside, strict=True) if owner == client and not coin]
        if gone:
            shards[client] = task.left_out(shard, np.concatenate(gone))
    evidence = Evidence(len(found))
    evidence.add(np.array([part for _, _, part in found]), np.sum(whole, axis=0) - _released(plan, task, shards))
    return inside, evidence.weighed().scores


def _chosen(
    plan: Plan, task: SummedTask[Any], shards: list[Any], whole: list[Floats], count: int, g: np.random.Generator
) -> list[tuple[int, NDArray[np.int64], Floats]]:
    """Units as (client, rows, part of the sum), drawn such that no two change one number; at most half of all."""
    units = [(client, rows) for client, shard in enumerate(shards) for rows in task.units_of(shard, plan.privacy.unit)]
    found: list[tuple[int, NDArray[np.int64], Floats]] = []
    touched = np.zeros(len(whole[0]), bool)
    most = min(count, len(units) // 2)
    for at in g.permutation(len(units))[: _TRIES * count].tolist():
        if len(found) == most:
            break
        client, rows = units[at]
        rest = task.summed(task.left_out(shards[client], rows), plan.privacy.unit, plan.privacy.clip)
        part = whole[client] - flat(rest, task.summed_layout)
        if part.any() and not touched[part != 0].any():
            touched |= part != 0
            found.append((client, rows, part))
    return found


def _released(plan: Plan, task: SummedTask[Any], shards: list[Any]) -> Floats:
    """What all get back of the sum, with noise that is drawn anew."""
    coding = plan.summed_coding
    assert coding is not None
    none, total = np.zeros(0, np.float32), np.zeros(coding.codes, np.int64)
    root = randomness.generator(plan.seed, "canaries of sums").bytes(32)
    for client, shard in enumerate(shards):
        g = randomness.lazy(plan.seed, "canaries", 0, client)
        arrays = task.summed(shard, plan.privacy.unit, plan.privacy.clip)
        total += coding.coded(arrays, none, g, 1, noise_of(plan, root, client, 0, ()))
    return flat(coding.mean(total, 1, none), task.summed_layout)
