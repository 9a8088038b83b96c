"""Every task on a CUDA device and on one core of the processor beside it: seconds of a round, scores, bytes.

Prints a table and writes docs/results/device.json. Both runs have the same seed, and scores are those at the best
validation. Sums on a device are in another order, so scores are close and not equal. Sets are the real ones where
they are (FEDGRAFT_DATA, or the folder of the repository's own); a row whose set is missing is left out, and named.
"""

import argparse
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from fedgraft.errors import FedgraftError
from fedgraft.experiment import job as jobs
from fedgraft.experiment.running.runner import execute

ROOT = Path(os.environ.get("FEDGRAFT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RESULT = Path(__file__).resolve().parents[1] / "docs" / "results" / "device.json"
LARGE = {
    "data.name": "blocks",
    "data.nodes": 60_000,
    "data.clients": 6,
    "data.classes": 41,
    "data.features": 602,
    "data.degree": 25.0,
    "model.hidden": [512, 512],
    "selector": {"name": "all"},
}


@dataclass(frozen=True)
class Row:
    """A recipe on a data set: its changes, the set's folder under ROOT if it is real, and how many rounds are run."""

    recipe: str
    changes: Mapping[str, Any]
    folder: str | None = "."
    rounds: int = 8


ROWS = (
    Row("fedacs", {"data.name": "ciao"}, "ciao"),
    Row("graft_rating", {"data.name": "ciao", "sharing.name": "fedper"}, "ciao"),
    Row("reputation_ucb", {"data.name": "ml100k"}, "ml-100k"),
    Row("fedais", {"data.name": "pubmed"}, "Planetoid"),
    Row("graft_node", {"data.name": "pubmed"}, "Planetoid"),
    Row("cefgl", {"data.name": "mutag", "data.clients": 7}, "TUDataset"),
    Row("graft_graph", {"data.name": "proteins", "data.clients": 7}, "TUDataset"),
    Row("rafhgl", {"data.name": "acm", "data.clients": 20}),
    Row("fedall_full", LARGE, None, 4),
)


class Rounds:
    """A watcher that notes when each round ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_round(self, state: Any, row: Mapping[str, Any]) -> None:
        """Note the time."""
        self.ends.append(time.perf_counter())


def measured(row: Row, device: str) -> dict[str, Any]:
    """Run it once; its figures."""
    root = {} if row.folder is None else {"data.root": str(ROOT / row.folder)}
    fixed = {"rounds": row.rounds, "seed": 1, "baselines": [], "runtime.workers": 0, "runtime.device": device}
    built = jobs.load(row.recipe, {**row.changes, **root, **fixed})
    watcher = Rounds()
    began = time.perf_counter()
    summary = execute(built, watcher=watcher)
    lasted = [after - before for before, after in zip(watcher.ends, watcher.ends[1:], strict=False)]
    best = min if summary["better"] == "lower" else max
    return {
        "metric": summary["metric"],
        "validation": best(point[3] for point in summary["curve"] if point[3] is not None),
        "test": summary["test_at_best_validation"],
        "bytes": summary["bytes"],
        "set_up_seconds": watcher.ends[0] - began,
        "round_seconds": median(lasted),
        "digest": summary["digest"],
    }


def main() -> None:
    """Measure every row on both devices; print and store what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULT, help="file of the figures")
    parser.add_argument("--only", nargs="*", default=[], help="recipes")
    options = parser.parse_args()
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    name = torch.cuda.get_device_name() if "cuda" in devices else "none"
    found: dict[str, Any] = {"device": name, "torch": torch.__version__, "rows": []}
    print(f"{'recipe':16}{'set':10}{'device':6}{'s/round':>9}{'set-up':>8}{'validation':>11}{'test':>8}{'MB':>8}")
    for row in ROWS:
        if options.only and row.recipe not in options.only:
            continue
        for device in devices:
            try:
                figures = measured(row, device)
            except FedgraftError as error:
                print(f"{row.recipe:16}{row.changes['data.name']:10}{device:6}{str(error).splitlines()[0]}")
                continue
            found["rows"].append({"recipe": row.recipe, "data": row.changes["data.name"], "on": device, **figures})
            print(
                f"{row.recipe:16}{row.changes['data.name']:10}{device:6}{figures['round_seconds']:9.3f}"
                f"{figures['set_up_seconds']:8.1f}{figures['validation']:11.4f}{figures['test']:8.4f}"
                f"{figures['bytes']['total'] / 1e6:8.2f}",
                flush=True,
            )
            options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
