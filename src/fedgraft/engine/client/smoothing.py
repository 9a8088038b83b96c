"""A client's part in smoothing answers: what it tells of its border, hop by hop, and what it remembers of it."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fedgraft.contracts.smoothing import SmoothingTask, coded, means_in
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine import border_codec
from fedgraft.engine.client.addend import numbers_added, packed, wrapped
from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.client.own_secrets import noise_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.halo_sums import MOST, PLACED, ROWS, at_places, bits_of, check_places
from fedgraft.engine.privacy.secure_sum import SCORE_BITS
from fedgraft.engine.protocol.sums import segment_of
from fedgraft.engine.protocol.table import TABLE
from fedgraft.errors import BeyondLimitError, ClientError
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array, Arrays

if TYPE_CHECKING:
    from fedgraft.engine.client.masking import Masking

_HALO = "halo"
"""Key of what a client remembers of sums of rows: where its own go, and how many rows there are."""


class Smoothing:
    """Answer requests of `protocol.smoothing_kinds`.

    In a client's memory "smoothing" is written: it has "answers", what the model said; "rows" and "known", the means of
    every hop; and in the end "layer", what was fitted to these, and "choice". Where answers are randomised it has
    "told", what others hear of, and its "scale".

    Args:
        plan: what both ends agreed on.
        masking: masks what is added up; None where nothing is.
        root: of the client's secrets, see `own_secrets.root_of`.
    """

    def __init__(self, plan: Plan, masking: "Masking | None", root: bytes) -> None:
        self._plan, self._masking, self._root = plan, masking, root

    def served(
        self, client: int, message: Message, data: Any, memory: Memory, module: torch.nn.Module | None = None
    ) -> Message:
        """Answer a request: "smooth" with `module`, any other without one.

        `data` are the client's, prepared, with the halo states that it remembers.
        """
        task, kind, kept = self._plan.smoothing, message.kind, memory.get("smoothing")
        assert task is not None, "it was checked where it is called"
        if kind == "border":
            return Message(kind, message.round, arrays={"border": border_codec.encode(task.border(data))})
        if kind == "smooth":
            assert module is not None, "the model comes with it"
            memory["smoothing"] = self._begun(client, message, task, data, module)
        elif kept is None:
            raise ClientError(f"asked for {kind!r} before 'smooth'")
        elif kind == "choice":
            memory["smoothing"] = {**kept, "choice": int(message.report["choice"])}
            return Message(kind, message.round)
        else:
            self._take_up(message, memory)
        told = _told(task, kind, data, memory["smoothing"])
        if self._plan.secure_sum.active and TABLE[kind].added:
            told = self._added(client, message, memory, told)
        return Message(kind, message.round, arrays=told or None)

    def _begun(
        self, client: int, message: Message, task: SmoothingTask[Any, Any], data: Any, module: torch.nn.Module
    ) -> Memory:
        with torch.no_grad():
            answers = task.answers(module, data)
        begun = {"answers": answers, "rows": [], "known": []}
        return {**begun, **self._randomised(client, message, answers)} if self._plan.privacy.answers else begun

    def _randomised(self, client: int, message: Message, answers: Array) -> dict[str, Any]:
        """What others hear of in place of answers: rows whose mean over chance is the likeliest class."""
        from fedgraft.secrets import randomised_response  # cryptography takes its time to import

        plan, (_, classes) = self._plan, answers.shape
        model = [(message.arrays or {})[spec.name] for spec in plan.downlink.encoded(plan.model_layout)]
        source = noise_of(plan, self._root, client, message.round, model, "answers")
        assert source is not None, "whoever randomises answers has a secret"
        drawn = randomised_response.answers(answers.argmax(1), classes, plan.privacy.answers, source)
        rows = randomised_response.debiased_rows(drawn, classes, plan.privacy.answers)
        scale = 1 / randomised_response.largest(classes, plan.privacy.answers)
        return {"told": rows.astype(np.float32), "scale": scale}

    @staticmethod
    def _take_up(message: Message, memory: Memory) -> None:
        """Remember the means that a request brings, or the layer."""
        kept, arrays = memory["smoothing"], message.arrays or {}
        if "rows" in arrays:
            known = arrays["known"] if len(arrays["known"]) else np.packbits(np.ones(len(arrays["rows"]), bool))
            memory["smoothing"] = {**kept, "rows": [*kept["rows"], arrays["rows"]], "known": [*kept["known"], known]}
        elif message.kind == "tally":
            memory["smoothing"] = {**kept, "layer": arrays}

    def _added(self, client: int, message: Message, memory: Memory, told: Arrays) -> Arrays:
        """What is told, as it is added to what others tell.

        Raises `BeyondLimitError` for a sum that is none, and where another one is asked for than follows.
        """
        kept = memory["smoothing"]
        done = len(kept["rows"])
        if message.kind == "hop" and message.segment != done:
            raise BeyondLimitError(f"asked for the rows after hop {message.segment}, where {done} are known")
        segment = segment_of(message.kind, done)
        if "rows" not in told:
            mask = self._masking.taken_up(client, message, memory, SCORE_BITS, segment) if self._masking else None
            return numbers_added(np.concatenate([array.ravel() for array in told.values()]), mask)
        if message.kind == "smooth":
            places, report = {spec.name: (message.arrays or {})[spec.name] for spec in PLACED}, message.report
            check_places(places, report[ROWS], report[MOST], *told["rows"].shape)
            kept = {**kept, _HALO: {**places, ROWS: int(report[ROWS]), MOST: int(report[MOST])}}
            memory["smoothing"] = kept
        halo = kept[_HALO]
        codes, bits = at_places(halo, halo[ROWS], told["rows"]).ravel(), bits_of(halo[MOST])
        masks = self._masking if len(codes) else None
        mask = masks.taken_up(client, message, memory, bits, segment) if masks else None
        return packed(wrapped(codes, bits, mask), bits)


def _told(task: SmoothingTask[Any, Any], kind: str, data: Any, kept: Memory) -> Arrays:
    """What is told by a reply of a kind, of what is remembered."""
    answers, means, layer = kept["answers"], means_in(kept), kept.get("layer", {})
    if kind in ("smooth", "hop"):
        randomised = kept.get("told")
        rows = task.told(data, answers if randomised is None else randomised, means)
        return {"rows": coded(rows * np.float32(kept.get("scale", 1.0)))}
    if kind == "sums":
        return task.hop_sums(data, answers, means)
    if kind == "tally":
        return {"tallies": task.tallies(data, answers, means, layer)}
    sums = task.evaluate_smoothed(data, answers, means, layer, kept["choice"])
    return {split: np.array([sums[split][name] for name in task.sums], np.float64) for split in SCORED_SPLITS}
