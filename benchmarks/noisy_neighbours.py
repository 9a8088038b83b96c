"""What a masked round with noise costs: all others as neighbours, as its threshold takes, and as many as without noise.

python benchmarks/noisy_neighbours.py    # a table; a minute

Nine of ten shares of noise must stay with each client, so that of few neighbours hardly one may be gone: the formula
gives all others. Runs are graft_node_private on made-up nodes with PubMed's numbers, in one process. Figures are of a
round, bytes of one client.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedgraft.experiment.job import load
from fedgraft.experiment.running import runner
from fedgraft.secrets.neighbours import degree, expected

CLIENTS, NODES, ROUNDS, USUAL = (10, 30, 100), 40, 3, 0.55
COLUMNS = ("clients", "threshold", "neighbours", "kB for masks", "kB in all", "processor s of all")


def recipe(clients: int, neighbours: int) -> Any:
    """Return the experiment; 0 neighbours are those of the formula."""
    changes = {
        **{"data.name": "blocks", "data.nodes": NODES * clients, "data.features": 500, "data.clients": clients},
        **{"privacy.delta": 1e-6, "rounds": ROUNDS, "baselines": [], "runtime.workers": 0},
        **{"secure_sum.neighbours": neighbours, "evaluation.at": "home", "checkpoint.every_seconds": 0},
    }
    return load("graft_node_private", changes)


def measured(clients: int, neighbours: int) -> list[str]:
    """Return a row of the table."""
    experiment = recipe(clients, neighbours)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        summary = runner.execute(experiment, Path(folder) / "run")
    share = experiment.among(clients).plan.collection.staying(clients)
    spent = time.process_time() - began
    parts = clients * ROUNDS * 1000
    return [
        f"{clients}",
        f"{share:.2f}",
        f"{expected(clients, neighbours, share)}",
        f"{summary['bytes']['masking'] / parts:.1f}",
        f"{(summary['bytes']['masking'] + summary['bytes']['model']) / parts:.1f}",
        f"{spent / ROUNDS:.1f}",
    ]


def main(clients: Sequence[int]) -> None:
    """Print the table."""
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for count in clients:
        for neighbours in dict.fromkeys((0, 2 * (min(count - 1, degree(count, USUAL)) // 2))):
            print("| " + " | ".join(measured(count, neighbours)) + " |", flush=True)


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or CLIENTS)
