"""A client's part in smoothing answers: what it tells of its border, hop by hop, and what it remembers of it."""

from typing import Any

import numpy as np
import torch

from fedgraft.contracts.smoothing import SmoothingTask, coded, means_in
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine import border_codec
from fedgraft.engine.client.client_memory import Memory
from fedgraft.errors import ClientError
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays


def served(
    task: SmoothingTask[Any, Any], message: Message, data: Any, memory: Memory, module: torch.nn.Module | None
) -> Message:
    """Answer a request of one of the kinds of `plan.SMOOTHING_KINDS`, a "smooth" with `module`, which else is None.

    `data` are the client's, prepared, with the halo states that it remembers. In its memory "smoothing" is written: it
    has "answers", what the model said; "rows" and "known", the means of every hop; and in the end "layer", what was
    fitted to these, and "choice".
    """
    return Message(message.kind, message.round, arrays=_told(task, message, data, memory, module) or None)


def _told(
    task: SmoothingTask[Any, Any], message: Message, data: Any, memory: Memory, module: torch.nn.Module | None
) -> Arrays:
    kind, kept = message.kind, memory.get("smoothing")
    if kind == "border":
        return {"border": border_codec.encode(task.border(data))}
    if kind == "smooth":
        assert module is not None, "the model comes with it"
        with torch.no_grad():
            answers = task.answers(module, data)
        memory["smoothing"] = {"answers": answers, "rows": [], "known": []}
        return {"rows": coded(task.told(data, answers, []))}
    if kept is None:
        raise ClientError(f"asked for {kind!r} before 'smooth'")
    answers = kept["answers"]
    if kind == "choice":
        memory["smoothing"] = {**kept, "choice": int(message.report["choice"])}
        return {}
    if kind == "smoothed":
        sums = task.evaluate_smoothed(data, answers, means_in(kept), kept.get("layer", {}), kept["choice"])
        return {split: np.array([sums[split][name] for name in task.sums], np.float64) for split in SCORED_SPLITS}
    arrays = message.arrays or {}
    if kind == "tally" and "rows" not in arrays:
        memory["smoothing"] = {**kept, "layer": arrays}
        return {"tallies": task.tallies(data, answers, means_in(kept), arrays)}
    known = arrays["known"] if len(arrays["known"]) else np.packbits(np.ones(len(arrays["rows"]), bool))
    kept = {**kept, "rows": [*kept["rows"], arrays["rows"]], "known": [*kept["known"], known]}
    memory["smoothing"] = kept
    if kind == "hop":
        return {"rows": coded(task.told(data, answers, means_in(kept)))}
    if kind == "sums":
        return task.hop_sums(data, answers, means_in(kept))
    return {"tallies": task.tallies(data, answers, means_in(kept), {})}
