"""FedCor: clients train whose losses go down together with those of many others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypedDict

import numpy as np
import torch
from annotated_types import Ge
from numpy.typing import NDArray

from fedgraft.contracts import Indices, Outcome, Probe, ProbingSelector, Selection, View
from fedgraft.contracts.ranges import NonNegativeInt, PositiveFloat, PositiveInt, PositiveProportion
from fedgraft.contracts.selector import SCORE
from fedgraft.methods.cohorts import filled, reachable, size
from fedgraft.methods.rl.networks import one_thread

Numbers = NDArray[np.float64]


class FedCorState(TypedDict):
    """State of FedCor: how losses have changed together, and the last of them."""

    changes: NDArray[np.float32]
    loss: Numbers
    asked: int
    picked: Indices


@dataclass(frozen=True)
class FedCor(ProbingSelector[FedCorState]):
    """A Gaussian process over changes of clients' losses; the cohort is what tells most of all clients together.

    The changes of all N losses in a round are Gaussian, of covariance S = X^T X + noise^2 I, with an embedding of each
    client in a column of X. The client of the largest alpha_k / sqrt(S_kk) * sum_i p_i S_ik is chosen, p_i its share of
    all training examples; S becomes what it is given that client's change; and so on. alpha_k is `beta` to the number
    of times that k has been chosen since a change was seen last.

    In the rounds of the warm-up, and then in every `every`-th, the cohort is drawn uniformly, and all clients are asked
    for their losses before and after. X is the likeliest for the changes seen so far.

    Source: Tang, Ning, Wang, Sun, Wang, Li, Chen, "FedCor: Correlation-Based Active Client Selection Strategy for
        Heterogeneous Federated Learning", CVPR 2022, and its published values.
    Differs:
        - Losses are those before and after a real round with a uniform cohort; the paper tries an update that it does
          not keep. What is seen counts from the round after the next on.
        - X is the maximum of the likelihood in closed form (Tipping and Bishop, "Probabilistic principal component
          analysis", 1999, with weights); the paper takes 100 steps of Adam towards it, which take longer and end short
          of it.
        - Changes are divided by their root mean square, as they shrink over a run; the choice does not depend on it.
          Their mean is taken to be 0. A change that is not known counts as the mean of the others.
        - An older change counts `gamma` to the number of changes since; `history` of them are kept.
        - The covariance is never written out, and is conditioned in `dim` numbers: a round takes time in proportion to
          N.
        - Nobody is asked where the budget does not pay for all who can be reached and a cohort then.

    Args:
        clients: m, how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        dim: of an embedding, >= 1; 15 (paper).
        noise: standard deviation of what is a client's alone, as a share of the size of changes, > 0; 0.01 (code).
        beta: factor of a client for each time that it was chosen, in (0, 1]; 0.95 (paper; CIFAR-10: 0.9).
        warm_up: rounds with uniform cohorts at the start, >= 1; 15 (paper).
        every: rounds from one uniform cohort to the next, >= 2; 10 (paper; CIFAR-10: 50).
        gamma: discount of older changes, in (0, 1]; 0.9 (paper: 0.8 to 0.99).
        history: changes that are kept, >= 1; 50 (ours).

    State:
        changes: float32 [up to history, N], the newest last; loss: float64 [N], as asked for last, nan = not known;
        asked: in which round, 0 = never; picked: int64 [N], times since a change was seen.
    Needs: "loss" of probes.
    Cost: model down and two scalars up for each client that can be reached (`bytes_per_probe`), in each round of the
        warm-up and in the one after it, and then in two of `every` rounds.
    """

    clients: NonNegativeInt = 0
    dim: PositiveInt = 15
    noise: PositiveFloat = 0.01
    beta: PositiveProportion = 0.95
    warm_up: PositiveInt = 15
    every: Annotated[int, Ge(2)] = 10
    gamma: PositiveProportion = 0.9
    history: PositiveInt = 50

    def init(self, view: View) -> FedCorState:
        """Return the first state: nothing known."""
        size(self.clients, view, "FedCor.clients")
        return {
            "changes": np.zeros((0, view.clients), np.float32),
            "loss": np.full(view.clients, np.nan),
            "asked": 0,
            "picked": np.zeros(view.clients, np.int64),
        }

    def probe(self, state: FedCorState, view: View, g: np.random.Generator) -> Probe | None:
        """All who can be reached, before and after a round with a uniform cohort."""
        pool = reachable(view)
        if not len(pool) or not (self._uniform(view.round) or self._follows(state, view.round)):
            return None
        if view.bytes_left is not None:
            prices = np.sort(view.bytes_per_client[pool])[-size(self.clients, view, "FedCor.clients") :]
            if view.bytes_per_probe[pool].sum() + prices.sum() > view.bytes_left:
                return None
        return Probe(tuple(pool.tolist()))

    def select(self, state: FedCorState, view: View, g: np.random.Generator) -> Selection:
        """Return a uniform cohort, or the greedy one; who cannot be paid for is passed over."""
        pool, wanted = reachable(view), size(self.clients, view, "FedCor.clients")
        if not len(pool):
            return Selection(())
        first: list[int] = []
        if self._ranks(state, view):
            shuffled = g.permutation(pool)  # ties fall at random
            first = self._telling(state, view, shuffled, wanted)[0].tolist()
        return Selection(filled(first, pool, wanted, view, g))

    def explanation(self, state: FedCorState, view: View) -> Mapping[str, Numbers]:
        """What each told of all clients as it was chosen, or would tell next, and alpha, float64 [N] each.

        {} where the cohort is uniform.
        """
        pool, wanted = reachable(view), size(self.clients, view, "FedCor.clients")
        if not len(pool) or not self._ranks(state, view):
            return {}
        score = np.full(view.clients, np.nan)
        score[pool] = self._telling(state, view, pool, wanted)[1]
        return {"factor for past choices": self._worth(state), SCORE: score}

    def update(self, state: FedCorState, view: View, outcome: Outcome) -> FedCorState:
        """Keep the losses that were told, and their changes where they were told a round before, too."""
        picked = state["picked"].copy()
        picked[list(outcome.selected)] += 1
        if not view.probed:
            return {**state, "picked": picked}
        loss = np.full(view.clients, np.nan)
        for k, answer in view.probed.items():
            loss[k] = answer["loss"]
        updated: FedCorState = {**state, "loss": loss, "asked": view.round, "picked": picked}
        change = _scaled(loss - state["loss"])
        if change is None or not self._follows(state, view.round):
            return updated
        changes = np.concatenate([state["changes"], change[None]])[-self.history :]
        return {**updated, "changes": changes, "picked": np.zeros_like(picked)}

    def _ranks(self, state: FedCorState, view: View) -> bool:
        """Return whether the cohort of a round is the greedy one."""
        return not self._uniform(view.round) and len(state["changes"]) > 0

    def _worth(self, state: FedCorState) -> Numbers:
        """Return alpha of each client, float64 [N]."""
        return np.asarray(self.beta ** state["picked"].astype(np.float64))

    def _telling(self, state: FedCorState, view: View, pool: Indices, count: int) -> tuple[Indices, Numbers]:
        """Return `telling` with what was seen so far."""
        points = embedding(state["changes"], self.gamma, self.dim, self.noise)
        shares = view.samples / max(1, view.samples.sum())
        return telling(points, self.noise, shares, self._worth(state), pool, count)

    def _uniform(self, round: int) -> bool:
        """Return whether a round's cohort is drawn uniformly."""
        return round <= self.warm_up or (round - self.warm_up) % self.every == 0

    def _follows(self, state: FedCorState, round: int) -> bool:
        """Return whether the losses before the last round are known, and its cohort was drawn uniformly."""
        return state["asked"] == round - 1 > 0 and self._uniform(round - 1)


def _scaled(change: Numbers) -> NDArray[np.float32] | None:
    """Return changes of mean square 1, float32 [N]; None where none is known, or all are 0."""
    known = np.isfinite(change)
    if not known.any():
        return None
    filled = np.where(known, change, change[known].mean())
    spread = float(np.sqrt((filled**2).mean()))
    return (filled / spread).astype(np.float32) if 0 < spread < np.inf else None


def embedding(changes: NDArray[np.float32], gamma: float, dim: int, noise: float) -> Numbers:
    """Return the X that makes changes likeliest, float64 [at most dim, N].

    Args:
        changes: float32 [T, N], the newest last.
        gamma: discount of older ones.
        dim: most rows.
        noise: standard deviation of what is a client's alone.
    """
    weights = gamma ** np.arange(len(changes) - 1, -1, -1.0)
    with one_thread():
        seen = torch.from_numpy(changes * np.sqrt(weights / weights.sum())[:, None])
        # The covariance of what was seen, seen^T seen, has the values of seen seen^T, which is small.
        values, vectors = torch.linalg.eigh(seen @ seen.T)
        kept = torch.arange(len(values)).flip(0)[:dim]
        kept = kept[values[kept] > noise**2]
        scale = ((values[kept] - noise**2) / values[kept]).sqrt()
        points: Numbers = (scale[:, None] * (vectors[:, kept].T @ seen)).numpy()
    return points


def telling(
    points: Numbers, noise: float, shares: Numbers, worth: Numbers, pool: Indices, count: int
) -> tuple[Indices, Numbers]:
    """Return so many clients of a pool, each the one that tells most given those before, and how much each tells.

    Args:
        points: X, float64 [dim, N]; the covariance is X^T X + noise^2 I.
        noise: > 0.
        shares: p, float64 [N].
        worth: alpha, float64 [N].
        pool: int64 [n], who may be chosen.
        count: at most n are returned.

    Returns:
        int64, the chosen in order; float64 [n], what each client of the pool told when it was chosen, or would tell
        after all of them.
    """
    places: list[int] = []
    gains: list[float] = []
    with one_thread():
        seen, factor = torch.from_numpy(points[:, pool]), torch.from_numpy(worth[pool])
        total = torch.from_numpy(points) @ torch.from_numpy(shares)
        covariance = total @ seen + noise**2 * torch.from_numpy(shares[pool])  # of all clients together, by each
        variance = seen.square().sum(0) + noise**2
        remaining = torch.eye(len(points), dtype=torch.float64)  # covariance of the `dim` numbers behind all changes
        for _ in range(min(count, len(pool))):
            tells = factor * covariance / variance.sqrt()
            k = int(tells.argmax())
            places.append(k)
            gains.append(float(tells[k]))
            along = remaining @ seen[:, k]
            shared, own = along @ seen, float(variance[k])
            covariance -= shared * (float(covariance[k]) / own)
            variance = (variance - shared.square() / own).clamp(min=noise**2)
            remaining -= torch.outer(along, along) / own
            factor[k], covariance[k] = 1.0, -torch.inf  # not again
        scores: Numbers = (factor * covariance / variance.sqrt()).numpy()
    scores[places] = gains
    return pool[np.array(places, np.int64)], scores
