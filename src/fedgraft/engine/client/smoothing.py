"""A client's part in smoothing answers: what it tells of its boundary, hop by hop, and what it remembers of it."""

from typing import Any

import numpy as np
import torch

from fedgraft.contracts.abilities.smoothing import SmoothingTask, coded, means_in
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine import boundary_codec
from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.client.contribution import Contribution
from fedgraft.engine.client.own_secrets import noise_of
from fedgraft.engine.plan import Plan
from fedgraft.errors import ClientError
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array, Arrays


class Smoothing:
    """Answer requests of `protocol.smoothing_kinds`.

    In a client's memory "smoothing" is written: it has "answers", what the model said; "rows" and "known", the means of
    every hop; and in the end "layer", what was fitted to these, and "choice". Where answers are randomised it has
    "told", what others hear of, and its "scale".

    Args:
        plan: what both ends agreed on.
        contribution: what leaves of what is told.
        root: of the client's secrets, see `own_secrets.root_of`.
    """

    def __init__(self, plan: Plan, contribution: Contribution, root: bytes) -> None:
        self._plan, self._contribution, self._root = plan, contribution, root

    def served(
        self, client: int, message: Message, data: Any, memory: Memory, module: torch.nn.Module | None = None
    ) -> Message:
        """Answer a request: "smooth" with `module`, any other without one.

        `data` are the client's, prepared, with the halo states that it remembers.
        """
        task, kind, kept = self._plan.smoothing, message.kind, memory.get("smoothing")
        assert task is not None, "it was checked where it is called"
        if kind == "border":
            return Message(kind, message.round, arrays={"border": boundary_codec.encode(task.boundary(data))})
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
        told = _told(self._plan, task, kind, data, memory["smoothing"])
        told = self._contribution.smoothed(client, message, memory, told)
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


def _told(plan: Plan, task: SmoothingTask[Any, Any], kind: str, data: Any, kept: Memory) -> Arrays:
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
    return {split: np.array([sums[split][name] for name in plan.task.sums], np.float64) for split in SCORED_SPLITS}
