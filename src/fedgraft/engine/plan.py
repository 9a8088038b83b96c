"""What the server and every client have agreed on before the first round."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedgraft.contracts import Codec, Sampler, Sharing, Task, randomness
from fedgraft.engine.training import Training
from fedgraft.nn.flat_model import FlatModel
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout, Spec

SPLITS = ("validation", "test")
PROGRESS_STEPS = 2**16 - 1
"""How finely a training request tells how much of the run is over: its sixteen flag bits as a share."""
PROBED = ("loss", "loss_sq")
"""What a probe can be asked: the model's mean and mean squared sample loss on all training examples."""
MAIL = "halo."
"""What the names of rows of other clients' nodes begin with in a message."""
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
        rows: codec of what clients tell each other of nodes: hidden states, and features before training.
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
    rows: Codec[Any]
    training: Training
    needs: frozenset[str]
    seed: int
    device: str = "cpu"
    keep_best: bool = True

    def build_model(self, variant: Hashable = None) -> FlatModel:
        """The task's model for a variant of client, as drawn at the start."""
        return FlatModel(self.task.model(randomness.torch_generator(self.seed, "model"), variant).to(self.device))

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

    @property
    def told(self) -> dict[str, tuple[str, ...]]:
        """{kind: the scalars in a request of this kind, in order}."""
        return {"train": self.sampler.tells}

    @cached_property
    def refreshes(self) -> int:
        """The most times that a client pauses in a round."""
        runs = self.sharing.runs(self.training.epochs) if self.task.tables else ()
        return sum(self.sampler.refreshes(epochs) for epochs in runs)

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
    def mail_layout(self) -> Layout:
        """Layout of rows as they are: for each layer, whose they are (a bit for each node that may be meant) and they.

        Its names begin with `MAIL`.
        """
        specs = [
            (Spec(f"{MAIL}slots.{k}", "uint8", (VARIABLE,)), Spec(f"{MAIL}rows.{k}", "float32", (VARIABLE, width)))
            for k, width in enumerate(self.task.tables)
        ]
        return Layout(tuple(spec for pair in specs for spec in pair))

    @cached_property
    def coded_mail_layout(self) -> Layout:
        """Layout of rows as they travel: the codec's arrays; their names begin with `MAIL` too."""
        return _prefixed(self.rows.encoded(self.mail_layout)) if self.task.tables else Layout(())

    @cached_property
    def coded_download_layout(self) -> Layout:
        """Layout of a model as it travels to those that train."""
        return self.downlink.encoded(self.download_layout)

    @cached_property
    def coded_upload_layout(self) -> Layout:
        """Layout of an update as it travels."""
        return self.uplink.encoded(self.upload_layout)

    @cached_property
    def request_layouts(self) -> dict[str, Layout]:
        """{kind: layout of the arrays in a request}; absent where a request never holds any."""
        down = self.coded_download_layout
        combined = self.rows.encoded(self.task.combined_layout())
        scored = self.downlink.encoded(self.model_layout)
        models = {**dict.fromkeys(("probe", "alone"), down), "evaluate": scored}
        told = {"train": _joined(down, self.coded_mail_layout), "rows": self.coded_mail_layout}
        free = {**dict.fromkeys(("measure", "relay"), self.mail_layout), "scored": self.model_layout}
        return {"statistics": combined, **models, **told, **free}

    @cached_property
    def reply_layouts(self) -> dict[str, Layout]:
        """{kind: layout of the arrays in a reply}; absent where a reply never holds any."""
        sums = Layout(tuple(Spec(split, "float64", (len(self.task.sums),)) for split in SPLITS))
        up = _joined(self.coded_upload_layout, self.coded_mail_layout)
        wait = _joined(self.coded_mail_layout, self.asked_layout)
        free = {"measure": sums, "relay": self.mail_layout}
        return {
            "hello": self.rows.encoded(self.task.statistics_layout()),
            "train": up,
            "wait": wait,
            "evaluate": sums,
            **free,
        }

    @cached_property
    def asked_layout(self) -> Layout:
        """Layout of which rows a client that waits asks for, a bit for each node of its halo; none if it need not."""
        layers = range(len(self.task.tables)) if self.task.pulls == "asked" else ()
        return Layout(tuple(Spec(f"{MAIL}asked.{k}", "uint8", (VARIABLE,)) for k in layers))

    @cached_property
    def request_bounds(self) -> dict[str, Layout]:
        """{kind: layout of the model in a request, the largest possible number in place of each `VARIABLE`}."""
        down = self.downlink.bounds(self.download_layout, self.download_layout)
        scored = self.downlink.bounds(self.model_layout, self.model_layout)
        return {**dict.fromkeys(("probe", "train", "alone"), down), "evaluate": scored}

    @cached_property
    def upload_bounds(self) -> Layout:
        """As `coded_upload_layout`, the largest possible number in place of each `VARIABLE`."""
        return self.uplink.bounds(self.upload_layout, self.upload_layout)

    def asked_bounds(self, nodes: int) -> Layout:
        """As `asked_layout`, for a halo of so many nodes."""
        return Layout(tuple(Spec(spec.name, spec.dtype, (-(-nodes // 8),)) for spec in self.asked_layout))

    def mail_bounds(self, nodes: int) -> Layout:
        """As `coded_mail_layout`, with the largest possible number in place of each `VARIABLE`, for so many nodes."""
        if not self.task.tables:
            return Layout(())
        sizes = {"uint8": (-(-nodes // 8),), "float32": (nodes,)}
        largest = Layout(
            tuple(Spec(spec.name, spec.dtype, (*sizes[spec.dtype], *spec.shape[1:])) for spec in self.mail_layout)
        )
        return _prefixed(self.rows.bounds(self.mail_layout, largest))


def _joined(one: Layout, other: Layout) -> Layout:
    return Layout((*one.specs, *other.specs))


def _prefixed(layout: Layout) -> Layout:
    """Names that begin with `MAIL`, which those that a codec makes up do not."""
    names = (spec.name if spec.name.startswith(MAIL) else MAIL + spec.name for spec in layout)
    return Layout(tuple(Spec(name, spec.dtype, spec.shape) for name, spec in zip(names, layout, strict=True)))
