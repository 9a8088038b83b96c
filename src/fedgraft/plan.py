"""What the server and every client have agreed on before the first round."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedgraft import seeds
from fedgraft.contracts import Codec, Sampler, Sharing, Task
from fedgraft.flat import FlatModel
from fedgraft.trainer import Training
from fedgraft.types import Arrays, Layout, Spec

SPLITS = ("validation", "test")
PROGRESS_STEPS = 2**16 - 1
"""How finely a training request tells how much of the run is over: its sixteen flag bits as a share."""
PROBED = ("loss", "loss_sq")
"""What a probe can be asked: the model's mean and mean squared sample loss on all training examples."""
REPORTED = ("loss", "loss_sq")
"""What every training can report, whatever the task."""


@dataclass(frozen=True)
class Plan:
    """The same values at both ends, so that neither names nor shapes of arrays or reports have to travel.

    Args:
        task: what is learnt.
        sampler: on which examples a client trains.
        sharing: what is shared and how it is merged.
        downlink: codec of what the server sends.
        uplink: codec of what clients send.
        training: how a client trains.
        needs: what the selector wants to know of those that trained.
        seed: of all randomness.
        device: where models live, "cpu" or "cuda".
        keep_best: whether a client with parameters of its own keeps, of all that it was scored with, what is best on
            its own validation split, and is scored with that.
    """

    task: Task[Any, Any]
    sampler: Sampler[Any]
    sharing: Sharing[Any]
    downlink: Codec[Any]
    uplink: Codec[Any]
    training: Training
    needs: frozenset[str]
    seed: int
    device: str = "cpu"
    keep_best: bool = True

    def build_model(self, variant: Hashable = None) -> FlatModel:
        """The task's model for a variant of client, as drawn at the start."""
        return FlatModel(self.task.model(seeds.torch_generator(self.seed, "model"), variant).to(self.device))

    def travels(self, name: str) -> bool:
        """Whether a parameter is shared."""
        return self.sharing.shares(name) and not self.task.personal(name)

    @cached_property
    def first(self) -> Arrays:
        """The shared parameters as drawn at the start: equal at both ends."""
        return {name: array for name, array in self._initial.items() if self.travels(name)}

    def scored(self, sharing: Any, group: int) -> Arrays:
        """The shared parameters that a group is scored with and keeps, given the sharing method's state."""
        evaluated = self.sharing.evaluated(sharing, group)
        return {name: evaluated[name] for name in self.first}

    @cached_property
    def personal(self) -> bool:
        """Whether clients end up with models of their own."""
        return self.sharing.personal or any(not self.travels(name) for name in self._initial)

    @cached_property
    def _initial(self) -> Arrays:
        return self.build_model().initial

    def names(self, kind: str) -> tuple[str, ...]:
        """The scalars in a reply of this kind, in order."""
        return self._names.get(kind, ())

    @cached_property
    def model_layout(self) -> Layout:
        """Layout of the shared parameters."""
        return Layout.of(self.first)

    @cached_property
    def download_layout(self) -> Layout:
        """Layout of what a group is sent to train from."""
        return self.sharing.downloads(self.model_layout)

    @cached_property
    def upload_layout(self) -> Layout:
        """Layout of what `local_update` returns."""
        return self.sharing.uploads(self.model_layout)

    @cached_property
    def _names(self) -> dict[str, tuple[str, ...]]:
        profile = tuple(sorted(self.needs & self.task.profile))
        reported = tuple(name for name in REPORTED if name == "loss" or name in self.needs)
        return {"hello": ("examples", *profile), "probe": PROBED, "train": reported, "alone": reported}

    @cached_property
    def request_layouts(self) -> dict[str, Layout]:
        """{kind: layout of the arrays in a request}; absent where a request never holds any."""
        down = self.downlink.encoded(self.download_layout)
        combined = self.task.combined_layout()
        scored = self.downlink.encoded(self.model_layout)
        models = {**dict.fromkeys(("probe", "train", "alone"), down), "evaluate": scored}
        return {"statistics": combined, **models, "measure": self.model_layout}

    @cached_property
    def reply_layouts(self) -> dict[str, Layout]:
        """{kind: layout of the arrays in a reply}; absent where a reply never holds any."""
        sums = Layout(tuple(Spec(split, "float64", (len(self.task.sums),)) for split in SPLITS))
        up = self.uplink.encoded(self.upload_layout)
        return {"hello": self.task.statistics_layout(), "train": up, "evaluate": sums, "measure": sums}

    @cached_property
    def request_bounds(self) -> dict[str, Layout]:
        """As `request_layouts`, the largest possible number in place of each `VARIABLE` of a model."""
        down = self.downlink.bounds(self.download_layout, self.download_layout)
        scored = self.downlink.bounds(self.model_layout, self.model_layout)
        return {**self.request_layouts, **dict.fromkeys(("probe", "train", "alone"), down), "evaluate": scored}

    @cached_property
    def reply_bounds(self) -> dict[str, Layout]:
        """As `reply_layouts`, the largest possible number in place of each `VARIABLE` of an update."""
        return {**self.reply_layouts, "train": self.uplink.bounds(self.upload_layout, self.upload_layout)}
