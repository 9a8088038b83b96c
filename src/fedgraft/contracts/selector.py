"""The contract of client selectors: choose who trains. With an ability."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final, Generic

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.values import Outcome, Probe, Selection, State, View

SCORE: Final = "score"
"""Term by which clients are ranked, larger = sooner; left out where nothing ranks them, or an agent does."""
AGENT: Final = "agent"
"""Term that an agent gives each client, larger = sooner, whether or not it had the choice in the round."""


class Selector(Checked, ABC, Generic[State]):
    """Choose the clients that train in a round."""

    reports: ClassVar[frozenset[str]] = frozenset()
    """Names of the scalars that replies must report: "loss" (mean sample loss), "loss_sq" (mean squared sample loss),
    "score" and "score_before" (of the model as trained and as received, on the client's own validation split; nan where
    that is empty), or any name of the task's `profile`. The name "update" asks for the decoded uploads instead
    (`Outcome.updates`)."""

    learns_from_scores: ClassVar[bool] = False
    """Whether `update` takes `Outcome.score` for what the round brought: it should then be scored after each."""

    score_split: str = "validation"
    """Name of the split whose score `update` sees. Anything but "validation" leaks; a method must say so."""

    by_coins: ClassVar[bool] = False
    """Whether each client takes part by a coin of its own (Poisson sampling), so that a claim of privacy is smaller.

    The server throws the coins, in secret: in the view of `select` others are not available. Where nobody is drawn,
    `select` is not asked, and the round is one of nobody. What `select` then leaves out must not depend on data."""

    def share(self, clients: int) -> float:
        """Return the probability of each of so many clients, in (0, 1], where coins decide; without coins 1."""
        return 1.0

    @property
    def paced(self) -> bool:
        """True where choices depend on how many rounds are planned, `view.rounds`: more of them make another run."""
        return False

    @abstractmethod
    def init(self, view: View) -> State:
        """Make the state before the first round; `view.round` is 1."""

    @abstractmethod
    def select(self, state: State, view: View, g: np.random.Generator) -> Selection:
        """Choose available clients whose `bytes_per_client` sum to at most `bytes_left`. Never mutates `state`."""

    def update(self, state: State, view: View, outcome: Outcome) -> State:
        """Return the state after a round. Never mutates `state`."""
        return state

    def explanation(self, state: State, view: View) -> Mapping[str, NDArray[np.float64]]:
        """Return {name: float64 [N], finite, or nan for a client that has none} of the choice just made, for a report.

        Nothing that a run does depends on it. It is called right after `select`, with the same state and view, and
        takes no longer. It draws nothing and never mutates anything. `SCORE` and `AGENT` are names that a report knows;
        all others are the method's own, in plain words, such as "mean reward". {} where clients were drawn at random.
        """
        return {}


class ProbingSelector(Selector[State]):
    """Ability: ask some clients for losses before choosing, of the current model or of steps; the bytes are charged."""

    @abstractmethod
    def probe(self, state: State, view: View, g: np.random.Generator) -> Probe | None:
        """Choose whom to ask; None asks nobody. The answers reach `select` as `view.probed`."""
