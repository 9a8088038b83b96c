"""What one round's updates tell a server that follows the protocol: each client's largest class, and its features."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Outcome, Selection, Selector, View
from fedgraft.contracts.abilities.auditing import AuditedTask
from fedgraft.engine.server.loop.stopping import Stopping
from fedgraft.engine.server.rounds.train_replies import TOGETHER
from fedgraft.experiment.attacking.guesses import audited_task
from fedgraft.experiment.running.baseline_scores import local_runtime
from fedgraft.experiment.running.loops import running
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.wire.layouts import Arrays

ALIKE: Final = 0.99
"""Cosine from which on a row of an update counts as an example's features."""


@dataclass(frozen=True)
class _Watching(Selector[Any]):
    """A selector that does as another, and keeps what the server decodes of a round."""

    reports: ClassVar[frozenset[str]] = frozenset({"update"})

    inner: Selector[Any]
    seen: dict[int, Arrays] = field(default_factory=dict)

    def init(self, view: View) -> Any:
        """Begin as the other one."""
        return self.inner.init(view)

    def select(self, state: Any, view: View, g: np.random.Generator) -> Selection:
        """Everybody who is there."""
        return Selection(tuple(int(client) for client in np.flatnonzero(view.available)))

    def update(self, state: Any, view: View, outcome: Outcome) -> Any:
        """Keep the updates."""
        self.seen.update(outcome.updates)
        return state


def first_updates(run: FinishedRun) -> Mapping[int, Arrays]:
    """Return what the server decodes of the first round of the run's recipe, of all clients: {client: update}.

    Of `TOGETHER` alone where updates are added up before the server sees one.
    """
    watching = _Watching(run.experiment.selector)
    again = replace(
        run.experiment,
        selector=watching,
        stopping=Stopping(rounds=1),
        runtime=local_runtime(run.experiment.runtime),
    ).after(agreement={}, matching={})
    with running(again, list(run.shards)) as (loop, _):
        loop.run(loop.start(), lambda state, row: None)
    return watching.seen


def labels(run: FinishedRun) -> dict[str, Any]:
    """Guess each client's largest class from its first update: of the last bias the number that grew most.

    Source: after Wainakh et al., "User-Level Label Leakage from Gradients in Federated Learning", PoPETs 2022.

    Returns:
        {"seen": of how many updates the server knows whose they are, "right": the share of clients whose largest class
        is guessed, "constant": the same of the class that is largest for most, None where nothing is seen}.
    """
    task = audited_task(run.plan, "labels")
    largest = {client: _largest(task, shard) for client, shard in enumerate(run.shards)}
    counts = np.bincount([each for each in largest.values() if each >= 0])
    constant = float(counts.max() / counts.sum()) if counts.sum() else None
    guessed = {}
    for client, update in first_updates(run).items():
        bias = _last_bias(update, task.labelled(run.shards[0], "train").classes)
        if client != TOGETHER and bias is not None and largest[client] >= 0:
            guessed[client] = int(np.argmax(bias)) == largest[client]
    right = float(np.mean(list(guessed.values()))) if guessed else None
    return {"seen": len(guessed), "right": right, "constant": constant}


def inversion(run: FinishedRun) -> dict[str, Any]:
    """Look for features of training nodes in the rows of the first layer's update, each divided by its bias's.

    Source: Phong et al., "Privacy-Preserving Deep Learning via Additively Homomorphic Encryption", 2018, section 3: a
        neuron's gradient of weights is that of its bias times its input. Fowl et al., "Robbing the Fed", ICLR 2022, for
        layers that a server makes for it, which a node of ours does not train (docs/security.md).

    Returns:
        {"examples": how many there are, "rebuilt": how many have a cosine above 0.99 with a row, "seen": of how many
        updates}; None for "rebuilt" where examples have no features of fixed width.
    """
    audited_task(run.plan, "inversion")
    features = [_features(shard) for shard in run.shards]
    known = [each for each in features if each is not None]
    updates = first_updates(run)
    if not known:
        return {"examples": 0, "rebuilt": None, "seen": len(updates)}
    rebuilt = 0
    for client, update in updates.items():
        rows = _rows(update, known[0].shape[1])
        of = np.concatenate(known) if client == TOGETHER else features[client]
        rebuilt += 0 if of is None else _alike(of, rows)
    return {"examples": sum(map(len, known)), "rebuilt": rebuilt, "seen": len(updates)}


def _largest(task: AuditedTask[Any], shard: Any) -> int:
    told = task.labelled(shard, "train")
    return int(np.bincount(told.label, minlength=told.classes).argmax()) if len(told.rows) else -1


def _last_bias(update: Arrays, classes: int) -> NDArray[Any] | None:
    found = [array for name, array in update.items() if name.endswith("bias") and array.shape == (classes,)]
    return found[-1] if found else None


def _features(shard: Any) -> NDArray[Any] | None:
    """Features of a client's training examples, float32 [n, width]; None where there are none of one width."""
    features = getattr(shard, "features", None)
    if features is None:
        return None
    rows = features[shard.rows("train")]
    return np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray(), np.float32)


def _rows(update: Arrays, width: int) -> NDArray[Any]:
    """Rows of the first layer's update that may be features, float64 [rows, width]."""
    for array in update.values():
        if array.ndim == 2 and width in array.shape:
            rows = array if array.shape[1] == width else array.T
            return rows.astype(np.float64)
    return np.zeros((0, width))


def _alike(features: NDArray[Any], rows: NDArray[Any]) -> int:
    """How many examples have a row in nearly their direction."""
    lengths, norms = np.linalg.norm(features, axis=1), np.linalg.norm(rows, axis=1)
    features, rows = features[lengths > 0] / lengths[lengths > 0, None], rows[norms > 0] / norms[norms > 0, None]
    if not (len(features) and len(rows)):
        return 0
    return int((np.abs(features @ rows.T).max(1) > ALIKE).sum())
