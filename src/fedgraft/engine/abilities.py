"""Which abilities the methods of a run have: each is a property here, None or empty for a method without it."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from fedgraft.contracts import (
    ActiveSampler,
    GuidedSampler,
    LinearTask,
    PersonalSharing,
    Sampler,
    Sharing,
    SilentSharing,
    Task,
)
from fedgraft.contracts.abilities.graphs import LocalGraphTask, StructuredTask
from fedgraft.contracts.abilities.private import CountedTask
from fedgraft.contracts.abilities.row_encryption import EncryptedRowsTask
from fedgraft.contracts.abilities.smoothing import SmoothingTask
from fedgraft.contracts.abilities.tasks import (
    HaloTask,
    ObservedTask,
    PublishingTask,
    SummedTask,
    SyntheticTask,
)
from fedgraft.wire.layouts import Arrays, Layout


def _able(part: str, kind: type[Any], has: str = "") -> cached_property[Any]:
    """Make a property: what answers an ability of that part of a plan, and not without what `has` names; else None."""

    def able(self: Any) -> Any:
        owner = getattr(self, part)
        found = owner.ability(kind) if isinstance(owner, Task) else owner if isinstance(owner, kind) else None
        return found if found is not None and (not has or getattr(found, has)) else None

    return cached_property(able)


class Abilities:
    """Check once which abilities a task, a sampler and a sharing method have; `Plan` says which these are."""

    task: Task[Any, Any]
    sampler: Sampler[Any]
    sharing: Sharing[Any]

    halo: cached_property[HaloTask[Any, Any] | None] = _able("task", HaloTask, "halo_widths")
    """The task, if clients exchange halo rows."""

    @cached_property
    def halo_widths(self) -> tuple[int, ...]:
        """Widths of the layers of which clients exchange halo rows."""
        return self.halo.halo_widths if self.halo else ()

    @cached_property
    def asks_rows(self) -> bool:
        """True where a client that refreshes asks for the rows that its next step reads."""
        return self.halo is not None and self.halo.pull == "asked"

    smoothing: cached_property[SmoothingTask[Any, Any] | None] = _able("task", SmoothingTask, "hops")
    """The task, if answers are smoothed after training."""

    @cached_property
    def smoothing_hops(self) -> int:
        """In how many hops."""
        return self.smoothing.hops if self.smoothing else 0

    @cached_property
    def sums_layout(self) -> Layout:
        """Layout of the sums by which a layer is fitted to what is known after all hops."""
        return self.smoothing.sums_layout if self.smoothing else Layout(())

    @cached_property
    def layer_layout(self) -> Layout:
        """Layout of that layer."""
        return self.smoothing.layer_layout if self.smoothing else Layout(())

    @cached_property
    def hop_kinds(self) -> tuple[str, ...]:
        """Kinds of the messages that bring the means of each hop."""
        last = "sums" if self.sums_layout.specs else "tally"
        return (*["hop"] * (self.smoothing_hops - 1), last) if self.smoothing else ()

    @cached_property
    def row_width(self) -> int:
        """Numbers in a row of a hop; a `TypeError` where ways to answer do not declare `row_tells`."""
        width = self.smoothing.row_width if self.smoothing else 0
        if width and self.smoothing and not self.smoothing.row_tells:
            raise TypeError("The ways to answer send rows and do not declare what these disclose (`Ways.row_tells`).")
        return width

    publishing: cached_property[PublishingTask[Any] | None] = _able("task", PublishingTask)
    """The task, if clients can publish statistics."""

    naming: cached_property[EncryptedRowsTask[Any] | None] = _able("task", EncryptedRowsTask)
    """The task, if clients name nodes of others in what they publish."""

    encrypted: cached_property[EncryptedRowsTask[Any] | None] = _able("task", EncryptedRowsTask, "seals")
    """The task, if rows that the server only hands on are encrypted."""

    @cached_property
    def summed(self) -> SummedTask[Any] | None:
        """The task, if statistics of clients are added up."""
        found = self.task.ability(SummedTask)
        return found if found and found.summed_layout.specs else None

    counted: cached_property[CountedTask[Any] | None] = _able("task", CountedTask)
    """The task, if it says over how few examples counts and means are."""

    guided: cached_property[GuidedSampler[Any] | None] = _able("sampler", GuidedSampler)
    """The sampler, if it has a half at the server."""

    @cached_property
    def guidance(self) -> tuple[str, ...]:
        """Names of the scalars that a guided sampler sends with an order to train."""
        return self.guided.guidance if self.guided else ()

    observed: cached_property[ObservedTask[Any, Any] | None] = _able("task", ObservedTask)
    """The task, if it says what a model makes of all training examples."""

    structured: cached_property[StructuredTask[Any, Any] | None] = _able("task", StructuredTask)
    """The task, if it says what a model makes of all of a client's nodes."""

    local_graphs: cached_property[LocalGraphTask[Any, Any] | None] = _able("task", LocalGraphTask)
    """The task, if it shows clients' parts of a graph."""

    responding: cached_property[SyntheticTask[Any, Any] | None] = _able("task", SyntheticTask)
    """The task, if it says what a model makes of data that are nobody's."""

    linear: cached_property[LinearTask[Any, Any] | None] = _able("task", LinearTask, "linear")
    """The task, if its model is linear."""

    active: cached_property[ActiveSampler[Any] | None] = _able("sampler", ActiveSampler)
    """The sampler, if it sees what the model makes of all training examples before every pass."""

    silent: cached_property[SilentSharing[Any] | None] = _able("sharing", SilentSharing)
    """The sharing method, if it has rounds in which nothing is sent."""

    owned: cached_property[PersonalSharing[Any] | None] = _able("sharing", PersonalSharing)
    """The sharing method, if it leaves clients with models of their own."""

    def groups(self, state: Any, clients: Iterable[int]) -> Sequence[int]:
        """Return the groups of some clients, ascending, given the sharing method's state."""
        return sorted({self.sharing.group(state, client) for client in clients}) or [0]

    def personalise(self, received: Arrays, memory: Any) -> Arrays:
        """Return the shared parameters as a client uses them."""
        return self.owned.personalise(received, memory) if self.owned else received

    def answering(self, left: Arrays, received: Arrays, memory: Any) -> Arrays:
        """Return the shared parameters that a client answers with when its local steps have left it with some."""
        return self.owned.answering(left, received, memory) if self.owned else left

    def ensemble(self, received: Arrays, memory: Any) -> Sequence[Arrays]:
        """Return further models that answer together with a client's own."""
        return self.owned.ensemble(received, memory) if self.owned else ()
