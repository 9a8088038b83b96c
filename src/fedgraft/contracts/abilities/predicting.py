"""Ability of a task: answer questions with a trained model, and say what it makes of test examples."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, NamedTuple

import numpy as np
import pandas as pd
import torch

from fedgraft.contracts.task import Prepared, Shard
from fedgraft.contracts.values import Indices, Questions
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array

SHARE: Final = "probability_"
"""What the name of a column of answers begins with that tells the probability of a class, whose name follows."""


class Classified(NamedTuple):
    """The test examples of a client.

    Args:
        classes: names of the client's classes.
        label: int64 [examples], the class of each, by its place in `classes`.
        answer: int64 [examples], what the model takes each for, likewise.
        shares: float32 [examples, classes], probabilities; None where they are not told.
    """

    classes: tuple[str, ...]
    label: Indices
    answer: Indices
    shares: Array | None = None

    def decided(self, positive_class: str, least: float) -> "Classified":
        """Return answers by a threshold: the class `positive_class` where its probability is at least so much."""
        if self.shares is None or positive_class not in self.classes or len(self.classes) != 2:
            return self
        place = self.classes.index(positive_class)
        return self._replace(answer=np.where(self.shares[:, place] >= least, place, 1 - place).astype(np.int64))


@dataclass(frozen=True, eq=False)
class Everybody(Generic[Shard]):
    """All clients of a run, where their data and what they remember are here.

    Args:
        shards: one per client.
        memory: returns what a client remembered at the end, by its number, as `PredictingTask.predict` takes it.
        model: returns the model that it answers with.
    """

    shards: Sequence[Shard]
    memory: Callable[[int], Mapping[str, Any]]
    model: Callable[[int], torch.nn.Module]


class PredictingTask(ABC, Generic[Shard, Prepared]):
    """Ability: answer questions with a trained model."""

    asks: ClassVar[tuple[str, ...]]
    """Names of the tables that questions come in, such as "pairs"; each row of the first gets an answer."""
    count_column: ClassVar[str] = ""
    """Name of the first table's column that says how many answers its row gets; "" where it gets one."""

    @abstractmethod
    def questions(self, shards: Sequence[Shard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """Return {client: what it is to answer}: every row of the first table with one client.

        Raises `InputError` for tables and columns that are missing.
        """

    @abstractmethod
    def predict(
        self, model: torch.nn.Module, shard: Shard, remembered: Mapping[str, Any], asked: Any
    ) -> dict[str, Array]:
        """Return columns of answers to a client's questions, from its own data (the training part where it is split).

        Columns that begin with `SHARE` are shown where they are asked for.

        `remembered` is what it kept of the run: "shared", what `combine` sent it, and "states", its halo states; {} for
        a client that was not there.
        """

    def vocabulary(self, shard: Shard) -> Sequence[str]:
        """Return the names by which what a model reads and tells of a client is numbered, in order; none by default.

        A model fits other data of the client only where they are the same. What `fitted` sets as options is told
        there.
        """
        return ()

    def tables_of(self, questions: Any) -> dict[str, pd.DataFrame]:
        """Return the tables that questions stand for which are no table, such as graph objects.

        Raises `InputError` for what it does not know, by default for anything.
        """
        raise InputError(
            "questions must be the path of a .csv or .parquet file or a DataFrame, a row each; "
            f"got {type(questions).__name__}."
        )

    def represent(self, model: torch.nn.Module, data: Prepared) -> tuple[Array, Array] | None:
        """Return the last hidden layer over the test examples, float32 [examples, width], and their classes.

        None where there is no hidden layer.
        """
        return None

    def informed(self, asked: Any, everybody: Everybody[Shard]) -> Any:
        """Return the questions to one client with what others know of it, where the data of all are here.

        As they are by default; elsewhere a client answers with what it was told in the run.
        """
        return asked

    @property
    def embeds(self) -> bool:
        """Whether there is `embed`."""
        return type(self).embed is not PredictingTask.embed

    def embed(
        self, model: torch.nn.Module, shard: Shard, remembered: Mapping[str, Any], asked: Any | None
    ) -> tuple[dict[str, Array], Array]:
        """Return columns that name what is asked, such as "node", and its hidden layer, float32 [questions, width].

        Arguments as of `predict`; `asked` may be None for the client's test examples.
        """
        raise NotImplementedError(f"{type(self).__name__} tells no hidden layer of what is asked.")

    def classified(
        self, model: torch.nn.Module, shard: Shard, data: Prepared, remembered: Mapping[str, Any]
    ) -> Classified | None:
        """Return the test examples of a client with the answers of `predict`, by a model in evaluation mode.

        It is asked where the data are, after a run; sums that clients send tell no pairs. `data` is what `prepare` made
        of the shard, opened. None, the default, of a task that tells no classes.
        """
        return None
