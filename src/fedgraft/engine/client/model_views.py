"""What a sharing method or a sampler may see of a client's model in training, beside its parameters."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts import Observations
from fedgraft.contracts.structure import WHOLE, Augmentation, LocalGraph, Structure
from fedgraft.engine.plan import Plan
from fedgraft.errors import FedgraftError
from fedgraft.nn.flat_model import FlatModel


class ModelViews(ABC):
    """What a model makes of a client's data, or of data that are nobody's, as it is after the last step.

    Args:
        plan: what both ends agreed on.
        flat: the model.
        data: the client's, prepared.
    """

    steps: int

    def __init__(self, plan: Plan, flat: FlatModel, data: Any) -> None:
        self._plan, self._flat, self._data = plan, flat, data
        # By steps: samplers and sharing methods look at the same.
        self._observed: tuple[int, Observations] | None = None
        self._view = 0

    def observe(self) -> Observations:
        """What the model makes of all training examples now."""
        observed = self._plan.observed
        if observed is None:
            raise self._blind("does not tell what a model makes of its examples")
        self._catch_up()
        if self._observed is None or self._observed[0] != self.steps:
            with self._looking() as model:
                self._observed = self.steps, observed.observe(model, self._data)
        return self._observed[1]

    def structure(self, left_out: Augmentation = WHOLE) -> Structure:
        """What the model makes of all nodes now, and their edges; less what is left out of the graph."""
        structured = self._plan.structured
        if structured is None:
            raise self._blind("does not tell what a model makes of nodes")
        with self._looking() as model:
            self._view = self._view or (self._seed() if left_out != WHOLE else 0)  # a round taken up sees it again
            hidden = structured.states(model, self._data, left_out, self._view).numpy(force=True)
        return Structure(hidden, *structured.edges(self._data))

    def local_graph(self) -> LocalGraph:
        """A client's part of a graph, and what the model makes of it now."""
        if (shown := self._plan.local_graphs) is None:
            raise self._blind("shows no client's part of a graph")
        with self._looking() as model:
            return shown.local_graph(model, self._data)

    def respond(self) -> NDArray[np.float32]:
        """What the model makes of data that are nobody's, float32 [response width]."""
        if (responding := self._plan.responding) is None:
            raise self._blind("draws no data that are nobody's")
        with self._looking() as model:
            made: NDArray[np.float32] = responding.response(model, self._plan.synthetic)
        return made

    @contextmanager
    def _looking(self) -> Iterator[torch.nn.Module]:
        """The model as it scores, for the time of a look."""
        self._catch_up()
        with torch.no_grad():
            yield self._flat.module.eval()
        self._flat.module.train()

    def _blind(self, why: str) -> FedgraftError:
        return FedgraftError(f"{type(self._plan.task).__name__} {why}.")

    @abstractmethod
    def _catch_up(self) -> None:
        """Load into the model what was put off."""

    @abstractmethod
    def _seed(self) -> int:
        """Draw a seed."""
