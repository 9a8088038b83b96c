"""The plan: options that the server and every client have agreed on before the first round."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from fedgraft.contracts import (
    Codec,
    Sampler,
    Sharing,
    Task,
    randomness,
)
from fedgraft.contracts.abilities.summing import SumCoding
from fedgraft.contracts.codec import RowCodec
from fedgraft.engine.abilities import Abilities
from fedgraft.engine.privacy.collection import Collection, collection_of
from fedgraft.engine.privacy.options import Privacy
from fedgraft.engine.privacy.policy import Policy
from fedgraft.engine.privacy.secure_sum import CODES, SecureSum
from fedgraft.engine.row_coding import EXACT, RowCoding
from fedgraft.engine.training import Training
from fedgraft.nn import flops
from fedgraft.nn.flat_model import FlatModel
from fedgraft.wire.layouts import VARIABLE, Arrays, Layout, Spec, joined

Made = TypeVar("Made")
PROGRESS_STEPS = 2**16 - 1
"""Steps in which a training request tells how much of the run is over: sixteen bits as a share."""
HALO = "halo."
"""Prefix of the names of halo rows in a message."""
SAMPLER = "sampler."
"""Prefix of the names of the sampler's shared arrays in a message."""
AFTER = "after."
"""Prefix of the names of sums in a reply that are of a client's model after local steps."""
COLLECTS = "collects"
"""Name of the scalar that tells those who are scored whether the next round sends what it makes."""
REPORTED = ("loss", "loss_sq")
"""Names of the scalars that every training and every probe can report: the mean and the mean squared sample loss."""
SERVER, CLIENTS, HOME = "server", "clients", "home"
"""Where models are scored."""
SCORE, SCORE_BEFORE = SCORES = ("score", "score_before")
"""Names of scalars that every training can report: the model's score on the own validation split, after and before."""


@dataclass(frozen=True)
class Plan(Abilities):
    """The values that both ends agree on, so that neither names nor shapes of arrays or reports have to travel.

    Args:
        task: what is learnt.
        sampler: on which examples a client trains.
        sharing: what is shared and how it is merged.
        downlink: codec of what the server sends.
        uplink: codec of what clients send.
        rows: codec of what clients exchange of nodes: hidden states, and features before training.
        training: how a client trains.
        reports: names of the scalars that the selector needs of those that trained.
        seed: of all randomness.
        device: where models live, "cpu" or "cuda".
        keep_best: whether a client with parameters of its own keeps, of all that it was scored with, what is best on
            its own validation split, and is scored with that.
        start: shared parameters that models begin with in place of drawn ones; {} draws all.
        local_steps: whether each client that is scored is also scored as its next local steps would leave it.
        policy: what may leave a client; of a node its own, whatever the server's recipe says.
        secure_sum: whether updates are added up before anybody sees one of them.
        privacy: what noise their sums hold.
        rounds: most rounds of the run, which noise must last for; 0 = not known.
        probes: whether the selector asks clients before it chooses.
        scored_at: where models are scored: at the "server", by the experimenter, outside the protocol; at "clients"; or
            at "home", so that no score leaves a client, and an experimenter who has all data here looks all the same.
        at_sites: whether data are at sites, so that there is no such experimenter.
    """

    task: Task[Any, Any]
    sampler: Sampler[Any]
    sharing: Sharing[Any]
    downlink: Codec[Any]
    uplink: Codec[Any]
    rows: Codec[Any]
    training: Training
    reports: frozenset[str]
    seed: int
    device: str = "cpu"
    keep_best: bool = True
    start: Arrays = field(default_factory=dict)
    local_steps: bool = False
    policy: Policy = field(default_factory=Policy)
    secure_sum: SecureSum = field(default_factory=SecureSum)
    privacy: Privacy = field(default_factory=Privacy)
    rounds: int = 0
    probes: bool = False
    scored_at: str = SERVER
    at_sites: bool = False

    def derived(self, make: Callable[["Plan"], Made]) -> Made:
        """Return what is made of this plan, such as its protocol; made once."""
        if make not in self._made:
            self._made[make] = make(self)
        made: Made = self._made[make]
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made anew where the plan arrives."""
        return {name: value for name, value in self.__dict__.items() if name != "_made"}

    @cached_property
    def _made(self) -> dict[Any, Any]:
        return {}

    def build_model(self, variant: Hashable = None) -> FlatModel:
        """Make the task's model for a variant of client, as at the start."""
        module = self.task.model(randomness.torch_generator(self.seed, "model"), variant)
        return FlatModel(module.to(self.device), self.start)

    def travels(self, name: str) -> bool:
        """Return whether a parameter is shared."""
        return self.sharing.shares(name) and not self.task.personal(name)

    @cached_property
    def first(self) -> Arrays:
        """The shared parameters as they are at the start: equal at both ends."""
        return {name: array for name, array in self._initial.items() if self.travels(name)}

    @cached_property
    def learnt(self) -> frozenset[str]:
        """Names of the model's parameters; its other arrays are running statistics."""
        return frozenset(self.build_model().parameters)

    @cached_property
    def connected(self) -> bool:
        """True where clients share a parameter; if not, each trains by itself and nothing is sent."""
        return bool(self.first)

    @property
    def at_clients(self) -> bool:
        """True where clients score models, and the protocol has it."""
        return self.scored_at == CLIENTS

    @property
    def at_home(self) -> bool:
        """True where no score leaves a client."""
        return self.scored_at == HOME

    @property
    def unscored(self) -> bool:
        """True where nobody sees scores: none leaves a client, and data are at sites."""
        return self.at_home and self.at_sites

    @property
    def adds(self) -> bool:
        """True where clients send what can be added up: updates, or statistics that the task sums."""
        return self.connected or self.summed is not None

    @cached_property
    def personal(self) -> bool:
        """True where clients end up with models of their own."""
        return self.owned is not None or any(not self.travels(name) for name in self._initial)

    @cached_property
    def _initial(self) -> Arrays:
        return self.build_model().initial

    @cached_property
    def synthetic(self) -> Any:
        """Prepared data that are nobody's, the same at all ends; None where the task draws none."""
        with flops.Meter():  # whoever is first draws them for all clients of the process
            return self.responding and self.responding.synthetic(randomness.generator(self.seed, "synthetic"))

    # --- messages ----------------------------------------------------------------------------------------------------

    @cached_property
    def refreshes(self) -> int:
        """The most times that a client pauses in a round."""
        runs = self.sharing.runs(self.training.epochs) if self.halo else ()
        return sum(self.sampler.refreshes(each) for each in runs)

    @cached_property
    def model_layout(self) -> Layout:
        """Layout of the shared parameters."""
        return Layout.of(self.first)

    @cached_property
    def first_sampler(self) -> Arrays:
        """The sampler's shared arrays as drawn at the start, equal at both ends, by the names that they travel by."""
        g = randomness.generator(self.seed, "sampler")
        drawn = self.active.first(g) if self.active else {}
        return {SAMPLER + name: array for name, array in drawn.items()}

    @cached_property
    def download_layout(self) -> Layout:
        """Layout of what a group is sent to train from: what the sharing method sends, and the sampler's arrays."""
        return joined(self.sharing.downloads(self.model_layout), Layout.of(self.first_sampler))

    @property
    def scored_layout(self) -> Layout:
        """Layout of a model to score: the shared parameters, or all that local steps from it need."""
        return self.download_layout if self.local_steps else self.model_layout

    def decoded_scored(self, arrays: Arrays) -> Arrays:
        """Return the model of a request to score it. Raises `WireError` for what no codec makes."""
        coded = self.downlink.encoded(self.scored_layout)
        return self.downlink.decode({spec.name: arrays[spec.name] for spec in coded}, self.scored_layout)

    @cached_property
    def upload_layout(self) -> Layout:
        """Layout of what `local_update` returns, and of the updates of the sampler's arrays."""
        return joined(self.sharing.uploads(self.model_layout), Layout.of(self.first_sampler))

    @cached_property
    def collection(self) -> Collection:
        """How the server collects updates: each by itself, or their sum alone."""
        return collection_of(self.secure_sum, self.privacy, self.rounds)

    @cached_property
    def sum_coding(self) -> SumCoding | None:
        """How updates are coded whose codes are added up; None where each is sent by itself, and where none is sent."""
        return self.collection.coding(self.uplink, self.upload_layout) if self.connected else None

    @cached_property
    def summed_coding(self) -> SumCoding | None:
        """How statistics are coded that are added up; None where there are none."""
        return self.collection.coding_of_statistics(self.summed) if self.summed else None

    @cached_property
    def row_coding(self) -> RowCoding:
        """How rows become bytes that are encrypted."""
        assert isinstance(self.rows, RowCodec), "it was checked where it was built"
        return RowCoding(self.rows)

    @cached_property
    def halo_layout(self) -> Layout:
        """Layout of rows before the codec: for each layer, whose they are (a bit for each that may be meant) and they.

        Its names begin with `HALO`. Encrypted rows are behind the codec already.
        """
        return self._halo_layout(self.row_coding) if self.encrypted else self._halo_layout(None)

    @cached_property
    def relayed_layout(self) -> Layout:
        """The same of rows that are relayed to score a model, which go through no codec."""
        return self._halo_layout(EXACT) if self.encrypted else self.halo_layout

    def _halo_layout(self, sealing: RowCoding | None) -> Layout:
        layers = list(enumerate(self.halo_widths))
        rows = Layout(tuple(Spec(f"{HALO}rows.{k}", "float32", (VARIABLE, width)) for k, width in layers))
        rows = sealing.encrypted(rows, rows.names) if sealing else rows
        marks = (Spec(f"{HALO}slots.{k}", "uint8", (VARIABLE,)) for k, _ in layers)
        return Layout(tuple(spec for pair in zip(marks, rows, strict=True) for spec in pair))

    @cached_property
    def coded_halo_layout(self) -> Layout:
        """Layout of rows as they travel: the codec's arrays; their names begin with `HALO` too."""
        return _prefixed(self.rows.encoded(self.halo_layout)) if self.halo_widths else Layout(())

    @cached_property
    def coded_download_layout(self) -> Layout:
        """Layout of a model as it travels to those that train."""
        return self.downlink.encoded(self.download_layout).varying(self.sharing.settles)

    @cached_property
    def coded_upload_layout(self) -> Layout:
        """Layout of an update as it travels."""
        if self.sum_coding:
            return Layout((Spec(CODES, "uint8", (VARIABLE,), "update"),))
        return self.uplink.encoded(self.upload_layout).varying(self.sharing.settles)

    @cached_property
    def statistics_layout(self) -> Layout:
        """Layout of what a client publishes before training, before the codec."""
        return self._with_encrypted(self.publishing.statistics_layout) if self.publishing else Layout(())

    @cached_property
    def combined_layout(self) -> Layout:
        """Layout of what a client gets back."""
        return self._with_encrypted(self.publishing.combined_layout) if self.publishing else Layout(())

    def _with_encrypted(self, layout: Layout) -> Layout:
        return self.row_coding.encrypted(layout, self.encrypted.handed_on) if self.encrypted else layout

    @cached_property
    def asked_layout(self) -> Layout:
        """Layout of which rows a client that waits asks for, a bit for each node of its halo; none if it need not."""
        layers = range(len(self.halo_widths)) if self.asks_rows else ()
        return Layout(tuple(Spec(f"{HALO}asked.{k}", "uint8", (VARIABLE,)) for k in layers))

    @cached_property
    def upload_bounds(self) -> Layout:
        """`coded_upload_layout` with the largest possible number in place of each `VARIABLE`; not of sums."""
        return self.uplink.bounds(self.upload_layout, self.upload_layout)

    def asked_bounds(self, nodes: int) -> Layout:
        """Return `asked_layout` with its sizes for a halo of so many nodes."""
        return Layout(tuple(Spec(spec.name, spec.dtype, (-(-nodes // 8),)) for spec in self.asked_layout))

    def halo_bounds(self, nodes: int) -> Layout:
        """Return `coded_halo_layout` with the largest number in place of each `VARIABLE`, for so many nodes."""
        if not self.halo_widths:
            return Layout(())
        sizes = {1: -(-nodes // 8), 2: nodes}  # of marks, and of rows
        largest = Layout(
            tuple(Spec(spec.name, spec.dtype, (sizes[len(spec.shape)], *spec.shape[1:])) for spec in self.halo_layout)
        )
        return _prefixed(self.rows.bounds(self.halo_layout, largest))


def split_sampler(arrays: Arrays) -> tuple[Arrays, Arrays]:
    """Return what is the sharing method's of a download or an upload, and the sampler's arrays."""
    shared = {name: array for name, array in arrays.items() if name.startswith(SAMPLER)}
    return ({name: array for name, array in arrays.items() if name not in shared}, shared) if shared else (arrays, {})


def _prefixed(layout: Layout) -> Layout:
    """Names that begin with `HALO`, which those that a codec makes up do not."""
    names = (spec.name if spec.name.startswith(HALO) else HALO + spec.name for spec in layout)
    return Layout(tuple(Spec(name, spec.dtype, spec.shape) for name, spec in zip(names, layout, strict=True)))
