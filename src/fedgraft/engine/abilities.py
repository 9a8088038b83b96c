"""Which abilities the methods of a run have: each is a property here, None or empty for a method without it."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fedgraft.contracts import (
    ActiveSampler,
    GroupedSharing,
    GuidedSampler,
    Indices,
    ObservingSampler,
    PersonalSharing,
    ReportingSampler,
    Sampler,
    SharedSampler,
    Sharing,
    SilentSharing,
    Sums,
    Task,
    TrackingSharing,
)
from fedgraft.contracts.smoothing import SmoothingTask, smoothing_of
from fedgraft.contracts.task_abilities import (
    BlockedTask,
    DetailedScores,
    HaloTask,
    ManualGradientTask,
    NeighbourSamplingTask,
    ObservedTask,
    ProfiledTask,
    PublishingTask,
    SeededTask,
    SurveyedTask,
    VariantTask,
)
from fedgraft.wire.layouts import Arrays


class Abilities:
    """Check once which abilities a task, a sampler and a sharing method have; `Plan` says which these are."""

    task: Task[Any, Any]
    sampler: Sampler[Any]
    sharing: Sharing[Any]

    @cached_property
    def halo(self) -> HaloTask[Any, Any] | None:
        """The task, if clients exchange halo rows."""
        return self.task if isinstance(self.task, HaloTask) and self.task.halo_widths else None

    @cached_property
    def halo_widths(self) -> tuple[int, ...]:
        """Widths of the layers of which clients exchange halo rows."""
        return self.halo.halo_widths if self.halo else ()

    @cached_property
    def asks_rows(self) -> bool:
        """True where a client that refreshes asks for the rows that its next step reads."""
        return self.halo is not None and self.halo.pull == "asked"

    @cached_property
    def smoothing(self) -> SmoothingTask[Any, Any] | None:
        """The task, if answers are smoothed after training."""
        return smoothing_of(self.task)

    @cached_property
    def smoothing_hops(self) -> int:
        """In how many hops."""
        return self.smoothing.hops if self.smoothing else 0

    @cached_property
    def row_width(self) -> int:
        """Numbers in a row of a hop."""
        return self.smoothing.row_width if self.smoothing else 0

    @cached_property
    def publishing(self) -> PublishingTask[Any, Any] | None:
        """The task, if clients can publish statistics."""
        return self.task if isinstance(self.task, PublishingTask) else None

    @cached_property
    def profiled(self) -> ProfiledTask[Any, Any] | None:
        """The task, if it describes clients' data."""
        return self.task if isinstance(self.task, ProfiledTask) else None

    @cached_property
    def surveyed(self) -> SurveyedTask[Any, Any] | None:
        """The task, if it tells how much a client has without preparing its data."""
        return self.task if isinstance(self.task, SurveyedTask) else None

    @cached_property
    def manual(self) -> ManualGradientTask[Any, Any] | None:
        """The task, if it computes gradients itself."""
        return self.task if isinstance(self.task, ManualGradientTask) else None

    @cached_property
    def variants(self) -> VariantTask[Any, Any] | None:
        """The task, if models differ by client."""
        return self.task if isinstance(self.task, VariantTask) else None

    @cached_property
    def blocked(self) -> BlockedTask[Any, Any] | None:
        """The task, if it cuts examples into blocks."""
        return self.task if isinstance(self.task, BlockedTask) else None

    @cached_property
    def seeds_draws(self) -> bool:
        """True where every draw needs a seed."""
        if isinstance(self.task, SeededTask):
            return True
        return isinstance(self.task, NeighbourSamplingTask) and self.task.draws_neighbours

    @cached_property
    def guided(self) -> GuidedSampler[Any] | None:
        """The sampler, if it has a half at the server."""
        return self.sampler if isinstance(self.sampler, GuidedSampler) else None

    @cached_property
    def guidance(self) -> tuple[str, ...]:
        """Names of the scalars that a guided sampler sends with an order to train."""
        return self.guided.guidance if self.guided else ()

    @cached_property
    def observing(self) -> ObservingSampler[Any] | None:
        """The sampler, if it sees all losses before a round."""
        return self.sampler if isinstance(self.sampler, ObservingSampler) and self.sampler.observes else None

    @cached_property
    def observed(self) -> ObservedTask[Any, Any] | None:
        """The task, if it says what a model makes of all training examples."""
        return self.task if isinstance(self.task, ObservedTask) else None

    @cached_property
    def active(self) -> ActiveSampler[Any] | None:
        """The sampler, if it sees what the model makes of all training examples before every pass."""
        return self.sampler if isinstance(self.sampler, ActiveSampler) else None

    @cached_property
    def reporting(self) -> ReportingSampler[Any] | None:
        """The sampler, if it tells the selector something."""
        return self.sampler if isinstance(self.sampler, ReportingSampler) else None

    @cached_property
    def shared_sampler(self) -> SharedSampler[Any] | None:
        """The sampler, if clients can share arrays of it."""
        return self.sampler if isinstance(self.sampler, SharedSampler) else None

    @cached_property
    def silent(self) -> SilentSharing[Any] | None:
        """The sharing method, if it has rounds in which nothing is sent."""
        return self.sharing if isinstance(self.sharing, SilentSharing) else None

    @cached_property
    def tracking(self) -> TrackingSharing[Any] | None:
        """The sharing method, if it needs to know what clients decode."""
        return self.sharing if isinstance(self.sharing, TrackingSharing) else None

    @cached_property
    def owned(self) -> PersonalSharing[Any] | None:
        """The sharing method, if it leaves clients with models of their own."""
        return self.sharing if isinstance(self.sharing, PersonalSharing) else None

    def group(self, state: Any, client: int) -> int:
        """Return which global model a client gets, given the sharing method's state."""
        return self.sharing.group(state, client) if isinstance(self.sharing, GroupedSharing) else 0

    def groups(self, state: Any, clients: Iterable[int]) -> Sequence[int]:
        """Return the groups of some clients, ascending, given the sharing method's state."""
        if not isinstance(self.sharing, GroupedSharing):
            return [0]
        return sorted({self.sharing.group(state, client) for client in clients})

    def personalise(self, received: Arrays, memory: Any) -> Arrays:
        """Return the shared parameters as a client uses them."""
        return self.owned.personalise(received, memory) if self.owned else received

    def ensemble(self, received: Arrays, memory: Any) -> Sequence[Arrays]:
        """Return further models that answer together with a client's own."""
        return self.owned.ensemble(received, memory) if self.owned else ()

    def blocks(self, data: Any) -> Sequence[Indices]:
        """Return the training examples that may share a step, int64 [examples] each; one block of all by default."""
        return self.blocked.blocks(data) if self.blocked else [np.arange(self.task.examples(data), dtype=np.int64)]

    def choice(self, sums: Sums) -> float:
        """Return what a model is chosen by on validation."""
        return self.task.choice(sums) if isinstance(self.task, DetailedScores) else self.task.score(sums)

    def mean_loss(self, sums: Sums) -> float:
        """Return the mean loss; nan where the task does not tell."""
        return self.task.mean_loss(sums) if isinstance(self.task, DetailedScores) else float("nan")

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return {name: measure} for every measure that the task tells."""
        if isinstance(self.task, DetailedScores):
            return self.task.measures(sums)
        return {self.task.metric: self.task.score(sums)}
