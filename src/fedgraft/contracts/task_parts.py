"""Parts of the task contract: what clients publish and tell each other, how they are scored, what they answer.

A task has all of them; what it does not need stays as it is here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import pandas as pd
import torch

from fedgraft.contracts.values import Draw, Halo, Indices, Mail, Questions, Sums
from fedgraft.wire.layouts import Array, Arrays, Layout, Tree

Shard = TypeVar("Shard")
"""One client's own data as the data set hands it over: plain NumPy values that can be sent to a worker process."""
Prepared = TypeVar("Prepared")


LossesAndBack: TypeAlias = tuple[torch.Tensor, Callable[[torch.Tensor], None]]
"""Losses of examples, and what sets the gradients of all parameters that are not held, given that of the losses."""


class Stepping(ABC, Generic[Prepared]):
    """How a step finds its gradient."""

    chancy: ClassVar[bool] = False
    """Whether losses depend on chance beside dropout: then draws bring some (`Draw.chance`), as do those that say how
    many `neighbours` take part."""
    noisy: ClassVar[bool] = True
    """Whether the model may draw from torch's own generators, as dropout does: then these are seeded."""
    layers: ClassVar[int] = 0
    """In how many layers a step draws neighbours, each with a number of its own in `Draw.neighbours`; 0 = in none."""

    def encode(self, model: torch.nn.Module, data: Prepared, block: Indices) -> torch.Tensor | None:
        """What all draws of a block can share and is costly to compute, such as node embeddings; None for nothing.

        It is computed once per block. Every draw moves what comes after it; the last one also moves what made it, by
        the mean of all the draws' gradients.
        """
        return None

    def loss_with_back(self, model: torch.nn.Module, data: Prepared, draw: Draw) -> LossesAndBack | None:
        """As `loss`, without autograd; None (the default) leaves it to that.

        Called where nothing is recorded and the draws of a block share nothing that was encoded.
        """
        return None


class Publishing(ABC, Generic[Shard]):
    """What clients publish once before training, and what they get back."""

    def statistics_layout(self) -> Layout:
        """Layout of what clients publish once before training, charged as statistics; empty (the default) = nothing."""
        return Layout(())

    def statistics(self, shard: Shard) -> Arrays:
        """What a client publishes: arrays of `statistics_layout`."""
        return {}

    def check(self, statistics: Arrays) -> None:
        """Server: raise `WireError` for what no client can have published; it costs that client its part in the run."""

    def combined_layout(self) -> Layout:
        """Layout of what a client gets back."""
        return Layout(())

    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Server: from what clients published to what each of them gets back, if need be made when asked for."""
        return {}


class Telling(ABC, Generic[Prepared]):
    """Hidden states of nodes that clients tell each other while they train, by way of the server.

    A client's data hold what it remembers of its own nodes' states and of its halo's; it is put in before a request is
    served and taken out afterwards.
    """

    @property
    def tables(self) -> tuple[int, ...]:
        """Widths of the hidden states of nodes that clients tell each other, one for each layer; none by default."""
        return ()

    @property
    def pulls(self) -> str:
        """What a client that asks to refresh is sent of its halo.

        What "changed" since it was last sent any, or what it "asked" for: rows that its next step `needs`, changed or
        not.
        """
        return "changed"

    def halos(self, statistics: Mapping[int, Arrays]) -> dict[int, tuple[int, Halo]]:
        """Server: {client: how many nodes it has, and whose rows it needs}, from what clients published.

        Raises `WireError` for what no client can have published.
        """
        return {}

    def recall(self, data: Prepared, remembered: Tree) -> None:
        """Make a client's data hold what `remember` told; None for nothing yet."""

    def remember(self, data: Prepared) -> Tree:
        """What must outlast a request."""
        return None

    def hear(self, data: Prepared, mail: Sequence[Mail]) -> None:
        """Take rows of the halo in, one `Mail` a layer."""

    def tell(self, data: Prepared) -> list[Mail]:
        """Rows of own nodes that others need and that changed since this was last called, one `Mail` a layer."""
        return []

    def needs(self, data: Prepared, draw: Draw) -> list[Indices]:
        """Slots of the halo whose rows a step reads, ascending, for each layer."""
        return []

    def relay(self, model: torch.nn.Module, data: Prepared, layer: int) -> list[Mail]:
        """Rows of one layer under this model of all own nodes that others need, given those of layers before it.

        What it may keep with the data is for the relays and the evaluation that follow under the same model: `forget`
        comes before any other use of them.
        """
        return []

    def forget(self, data: Prepared) -> None:
        """Drop what relays kept."""


class Scoring(ABC, Generic[Prepared]):
    """How good a model is: sums that merge over clients, and what they tell."""

    metric: ClassVar[str]
    better: ClassVar[str]
    """"lower" or "higher"."""

    @property
    @abstractmethod
    def sums(self) -> tuple[str, ...]:
        """The keys of `evaluate`'s result, in the order in which they travel; no sum is negative."""

    @abstractmethod
    def evaluate(self, model: torch.nn.Module, data: Prepared) -> dict[str, Sums]:
        """{"validation": sums, "test": sums}: mergeable, keyed as in `sums`."""

    @abstractmethod
    def score(self, sums: Sums) -> float:
        """The metric, from merged sums; nan where there was nothing to score."""

    def mean_loss(self, sums: Sums) -> float:
        """The mean loss, from merged sums; nan for tasks that do not tell."""
        return float("nan")

    def measures(self, sums: Sums) -> dict[str, float]:
        """Every measure that the sums tell, by name; the score alone by default."""
        return {self.metric: self.score(sums)}

    def choice(self, sums: Sums) -> float:
        """What a model is chosen by on validation, better in the same direction as the score; the score by default."""
        return self.score(sums)


class Accuracy(Scoring[Prepared]):
    """The score of a classification, from sums of right answers, examples and losses."""

    metric: ClassVar[str] = "accuracy"
    better: ClassVar[str] = "higher"

    def score(self, sums: Sums) -> float:
        """Accuracy."""
        return sums.get("correct", 0.0) / sums["count"] if sums.get("count") else float("nan")

    def choice(self, sums: Sums) -> float:
        """Accuracy, ties broken by the smaller loss: all of it weighs less than half an example."""
        if not sums.get("count"):
            return float("nan")
        return (sums["correct"] + 0.5 / (1.0 + sums["loss"] / sums["count"])) / sums["count"]


class Answering(ABC, Generic[Shard, Prepared]):
    """What a trained model is asked."""

    asks: ClassVar[tuple[str, ...]]
    """Tables that questions to the trained model come in, such as "pairs"; each row of the first gets an answer."""

    def represent(self, model: torch.nn.Module, data: Prepared) -> tuple[Array, Array] | None:
        """The last hidden layer over the test examples, float32 [examples, width], and their classes; None for none."""
        return None

    def together(self, models: Sequence[torch.nn.Module]) -> torch.nn.Module:
        """One module that answers as the mean of several, at least one; for tasks that offer "together"."""
        raise NotImplementedError

    @abstractmethod
    def questions(self, shards: Sequence[Shard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """{client: what it is to answer}, every row of the first of the tables that it `asks` for with one client.

        Raises `InputError` for tables and columns that are missing.
        """

    @abstractmethod
    def predict(
        self, model: torch.nn.Module, shard: Shard, remembered: Mapping[str, Any], asked: Any
    ) -> dict[str, Array]:
        """Columns of answers to a client's questions, from its own data (the training part where it is split).

        `remembered` is what it kept of the run: "shared", what `combine` sent it, and "states", what `remember` told;
        nothing of a client that was not there.
        """
