"""Flower's own modules for privacy on the work of our recipes: accuracy under noise, and what a sum costs.

python benchmarks/flower_private.py noise DIR    # PubMed/ in DIR: a table; some minutes
python benchmarks/flower_private.py sums         # a table; a minute

Noise: `DifferentialPrivacyServerSideFixedClipping` around `FedAvg`, whose unit is a whole client and which trusts the
server. All clients weigh the same, which its noise is for, and epsilon is what our accountant makes of its multiplier.
The linear model and the cut at random into 100 clients are those of graft_node_private. Rounds, local steps, rates and
lengths are chosen for each epsilon by validation nodes of a seed that is not reported.

Sums: `SecAggPlusWorkflow` and `secaggplus_mod` at each client, in one process; a tenth is gone before masks are lifted.
"""

import argparse
import logging
import time
from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

import numpy as np
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.app.message.message import TaskIdentity
from flwr.client.mod import secaggplus_mod
from flwr.common import Code, FitRes, Parameters, Status, ndarrays_to_parameters, parameters_to_ndarrays, serde
from flwr.compat.common import recorddict_compat as compat
from flwr.server import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key

from fedgraft.experiment.job import load
from fedgraft.secrets.accountant import noise_for
from fedgraft.secrets.neighbours import degree

EPSILONS, DELTA, TUNED, SEEDS = (1.0, 2.0, 4.0, 8.0), 1e-5, 11, (1, 2, 3, 4, 5)
GRID = tuple(product((5, 15, 30), (1, 10), (1.0, 4.0), (0.5, 2.0)))
"""Rounds, local steps, learning rate of these, most length of an update."""
SIZES = ((10, 12_099), (100, 12_099), (100, 1_000_000))
"""Clients, and numbers of a model."""
GONE = 10
"""Of so many clients one is gone."""
FULL = {"fraction_fit": 1.0, "fraction_evaluate": 0.0, "min_fit_clients": 2, "min_available_clients": 2}
OK = Status(Code.OK, "")


class Examples(NamedTuple):
    """Nodes: features float32 [nodes, columns], and classes int64 [nodes]."""

    features: np.ndarray
    label: np.ndarray


class Proxy(ClientProxy):
    """A client of which the server knows a number: its work is done where it is asked for."""

    get_properties = get_parameters = fit = evaluate = reconnect = None  # type: ignore[assignment]


def manager_of(count: int) -> SimpleClientManager:
    """Return a manager of so many clients, numbered from 0."""
    manager = SimpleClientManager()
    for number in range(count):
        proxy = Proxy(str(number))
        proxy.node_id = number
        manager.register(proxy)
    return manager


# --- noise -----------------------------------------------------------------------------------------------------------


def examples_of(root: str, seed: int) -> dict[str, list[Examples]]:
    """Return {split: each client's nodes}, as graft_node_private has them."""
    experiment = load("graft_node_private", {"data.root": root, "seed": seed})
    shards = experiment.shards()
    task, found = experiment.fitted(shards).plan.task, {"train": [], "validation": [], "test": []}
    for shard in shards:
        data = task.prepare(shard, {})
        for split, of in found.items():
            of.append(Examples(np.asarray(data.features.filled(data.rows[split])), data.label[data.rows[split]]))
    return found


def trained(weight: np.ndarray, examples: Examples, steps: int, rate: float) -> np.ndarray:
    """Return [columns + 1, classes] after steps of gradient descent on the mean cross-entropy; the bias is the last."""
    inputs = np.concatenate([examples.features, np.ones((len(examples.label), 1), np.float32)], axis=1)
    targets = np.eye(weight.shape[1])[examples.label]
    for _ in range(steps):
        weight = weight - rate * inputs.T @ (shares(inputs @ weight) - targets) / len(inputs)
    return weight


def shares(outputs: np.ndarray) -> np.ndarray:
    """Return softmax by rows."""
    raised = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def accuracy(weight: np.ndarray, parts: Iterable[Examples]) -> float:
    """Return the share of nodes that are told rightly."""
    right = [(part.features @ weight[:-1] + weight[-1]).argmax(axis=1) == part.label for part in parts]
    return float(np.concatenate(right).mean())


def federated(parts: list[Examples], classes: int, epsilon: float, option: tuple[int, int, float, float]) -> np.ndarray:
    """Return the model after Flower's rounds with noise."""
    rounds, steps, rate, length = option
    manager, weight = manager_of(len(parts)), np.zeros((parts[0].features.shape[1] + 1, classes))
    multiplier = noise_for(epsilon, DELTA, rounds)
    strategy = DifferentialPrivacyServerSideFixedClipping(FedAvg(**FULL), multiplier, length, len(parts))
    for round in range(1, rounds + 1):
        asked = strategy.configure_fit(round, ndarrays_to_parameters([weight]), manager)
        results = []
        for proxy, order in asked:
            (sent,) = parameters_to_ndarrays(order.parameters)
            made = trained(sent, parts[proxy.node_id], steps, rate)
            results.append((proxy, FitRes(OK, ndarrays_to_parameters([made]), 1, {})))
        merged, _ = strategy.aggregate_fit(round, results, [])
        assert merged is not None, "nobody has failed"
        (weight,) = parameters_to_ndarrays(merged)
    return weight


def noise(root: str) -> None:
    """Print accuracy against epsilon."""
    tuned = examples_of(root, TUNED)
    by_seed = {seed: examples_of(root, seed) for seed in SEEDS}
    classes = 1 + max(int(part.label.max(initial=0)) for part in tuned["train"])
    print("| epsilon | rounds | local steps | rate | length | test accuracy, % |\n|---|---|---|---|---|---|")
    for epsilon in EPSILONS:
        np.random.seed(TUNED)  # noqa: NPY002 - Flower draws noise from numpy's own generator

        def validated(option: tuple[int, int, float, float], epsilon: float = epsilon) -> float:
            return accuracy(federated(tuned["train"], classes, epsilon, option), tuned["validation"])

        option, scores = max(GRID, key=validated), []
        for seed, of in by_seed.items():
            np.random.seed(seed)  # noqa: NPY002
            scores.append(100 * accuracy(federated(of["train"], classes, epsilon, option), of["test"]))
        spread = np.std(scores, ddof=1)
        print(f"| {epsilon:g} | " + " | ".join(f"{each:g}" for each in option), end=" | ")
        print(f"{np.mean(scores):.1f} (deviation {spread:.1f}) |", flush=True)


# --- sums ------------------------------------------------------------------------------------------------------------


class Here:
    """All clients in this process: what the workflow asks of a grid. Bytes of those that stay, and time, are noted."""

    def __init__(self, clients: int, update: Parameters) -> None:
        self._update, self.up, self.seconds = update, 0, 0.0
        self._contexts = {number: Context(0, number, {}, RecordDict(), {}) for number in range(clients)}
        self._gone = set(range(0, clients, GONE))

    def send_and_receive(self, messages: Iterable[Message], timeout: float | None = None) -> list[Message]:
        """Answer messages as a client behind `secaggplus_mod` does; those that are gone do after shares were dealt."""
        replies = []
        for message in messages:
            number = TaskIdentity.node_id = message.metadata.dst_node_id
            message = serde.message_from_proto(serde.message_to_proto(message))  # a client has one of its own
            if message.content.array_records and number in self._gone:
                replies.append(Message(Error(0, "is gone"), reply_to=message))
                continue
            began = time.process_time()
            reply = secaggplus_mod(message, self._contexts[number], self._trained)
            self.seconds += time.process_time() - began
            self.up += serde.message_to_proto(reply).ByteSize() * (number not in self._gone)
            replies.append(reply)
        return replies

    def _trained(self, message: Message, context: Context) -> Message:
        result = FitRes(OK, self._update, 1, {})
        return Message(compat.fitres_to_recorddict(result, keep_input=True), reply_to=message)


def summed(clients: int, numbers: int) -> list[str]:
    """Return a row of the table: Flower's sum with as many neighbours as ours has."""
    neighbours = degree(clients, 0.55)
    start = ndarrays_to_parameters([np.zeros(numbers, np.float32)])
    grid = Here(clients, ndarrays_to_parameters([np.full(numbers, 0.5, np.float32)]))
    context = LegacyContext(Context(0, 0, {}, RecordDict(), {}), None, FedAvg(**FULL), manager_of(clients))
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    context.state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(start, keep_input=True)
    began = time.process_time()
    SecAggPlusWorkflow(neighbours + 1, round(0.55 * neighbours), max_weight=1.0)(grid, context)
    seconds = time.process_time() - began - grid.seconds
    (made,) = context.state.array_records[MAIN_PARAMS_RECORD].to_numpy_ndarrays()
    assert np.allclose(made, 0.5, atol=1e-3), "the mean of equal updates"
    staying = clients - len(range(0, clients, GONE))
    each = (f"{grid.up / staying / 1000:,.1f}", f"{1000 * grid.seconds / clients:,.0f}", f"{1000 * seconds:,.0f}")
    return [f"{clients}", f"{numbers:,}", f"{neighbours}", *each]


def sums() -> None:
    """Print what a sum costs."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 0, 0, 0
    print(
        "| clients | numbers | neighbours | kB up a client | ms of a client | ms of the server |\n" + "|---" * 6 + "|"
    )
    for size in SIZES:
        print("| " + " | ".join(summed(*size)) + " |", flush=True)


if __name__ == "__main__":
    logging.getLogger("flwr").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("noise", "sums"))
    parser.add_argument("root", nargs="?", default="", help="folder of PubMed/")
    given = parser.parse_args()
    if given.what == "noise":
        noise(given.root)
    else:
        sums()
