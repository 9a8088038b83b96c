"""Ten of fifty clients lie: what each aggregation rule makes of it, on PubMed; half an hour on two cores.

    python benchmarks/attackers.py --data DIR [--seeds 3] [--out docs/results/attackers] [--jobs 2]

Cells that are stored are not run again. The table goes to the terminal and, between its marks, to the page.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch

from fedgraft.contracts import randomness
from fedgraft.experiment.job import load
from fedgraft.reports.studies.study import CELLS, StoredResults, write_result
from fedgraft.runtimes.workers.in_process import InProcess
from fedgraft.testing.attackers import Attack, Attacked, noise, scaled
from fedgraft.testing.runs import loop_of

CLIENTS, LIARS = 50, 10
ATTACKS: dict[str, Attack | None] = {
    "none": None,
    "labels flipped": None,
    "sign flipped": scaled(-1),
    "sign flipped, x 10": scaled(-10),
    "x 100": scaled(100),
    "noise, x 10": noise(10),
}
RULES = {
    "mean": {"name": "mean"},
    "median": {"name": "median"},
    "trimmed_mean": {"name": "trimmed_mean", "share": 0.2},
    "krum": {"name": "krum", "share": 0.2},
    "geometric_median": {"name": "geometric_median"},
}
BEGIN, END = "<!-- tables: written by fedgraft study -->", "<!-- /tables -->"


@dataclass(frozen=True)
class Cell:
    """One run: a rule, an attack, a seed."""

    rule: str
    attack: str
    seed: int

    @property
    def file(self) -> str:
        """Name of its result."""
        return f"{CELLS}/{self.rule}-{self.attack.replace(' ', '_').replace(',', '')}-seed{self.seed}.json"


def run(cell: Cell, data: str) -> dict[str, Any]:
    """Run a cell; its scores."""
    torch.set_num_threads(1)
    changes = {"data.name": "pubmed", "data.root": data, "data.clients": CLIENTS, "selector": "all", "rounds": 12}
    free = {"baselines": [], "runtime.workers": 0, "evaluation.every": 4, "seed": cell.seed}
    experiment = load("fedlocal", {**changes, **free, "aggregation": RULES[cell.rule]})
    shards = list(experiment.data.load(experiment.seed))
    experiment = experiment.fitted(shards)
    g = randomness.generator(cell.seed, "attackers")
    liars = sorted(g.choice(CLIENTS, LIARS, replace=False).tolist()) if cell.attack != "none" else []
    if cell.attack == "labels flipped":
        classes = 1 + max(int(shard.label.max()) for shard in shards)
        for client in liars:
            shards[client] = flipped(shards[client], classes)
    inner = InProcess(experiment.plan, shards, workers=0)
    runtime = Attacked(inner, experiment.plan, liars, ATTACKS[cell.attack])
    left_out = 0
    try:
        loop = loop_of(experiment, runtime)
        state = loop.start()
        while not state.finished:
            row = loop.step(state)
            left_out += len(row.failed) if row else 0
    finally:
        runtime.close()
    last = state.curve[-1]
    return {"test": last["test"], "validation": last["validation"], "rounds": state.round, "left_out": left_out}


def flipped(shard: Any, classes: int) -> Any:
    """A shard whose training labels l are classes - 1 - l (Fang et al., USENIX Security 2020); those held out stay."""
    label = np.where((shard.split == 0) & (shard.label >= 0), classes - 1 - shard.label, shard.label)
    return replace(shard, label=label.astype(shard.label.dtype))


def table(found: dict[Cell, dict[str, Any]], seeds: int) -> str:
    """Test accuracy in percent by rule and attack, and its paired difference from the mean without attack."""

    def score(rule: str, attack: str, seed: int) -> float:
        return 100 * float(found[Cell(rule, attack, seed)]["test"])

    lines = [f"| attack by {LIARS} of {CLIENTS} | {' | '.join(RULES)} |", "|---|" + "---|" * len(RULES)]
    for attack in ATTACKS:
        row = []
        for rule in RULES:
            scores = [score(rule, attack, seed) for seed in range(1, seeds + 1)]
            lost = mean(score("mean", "none", seed) - mine for seed, mine in enumerate(scores, 1))
            spread = f" ± {stdev(scores):.1f}" if seeds > 1 else ""
            apart = "" if (rule, attack) == ("mean", "none") else f" ({-round(lost, 1) + 0.0:+.1f})"
            row.append(f"{mean(scores):.1f}{spread}{apart}")
        lines.append(f"| {attack} | {' | '.join(row)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder that holds PubMed as PyG's Planetoid has it")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs/results/attackers"))
    parser.add_argument("--page", type=Path, default=Path("docs/results/attackers.md"))
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    cells = [Cell(rule, attack, seed) for seed in range(1, given.seeds + 1) for attack in ATTACKS for rule in RULES]
    stored = StoredResults(given.out)
    (given.out / CELLS).mkdir(parents=True, exist_ok=True)
    missing = [cell for cell in cells if stored.read(cell.file) is None]
    print(f"{len(cells) - len(missing)} of {len(cells)} cells are done", file=sys.stderr)
    with ProcessPoolExecutor(given.jobs) as pool:
        for cell, result in zip(missing, pool.map(run, missing, [given.data] * len(missing)), strict=True):
            write_result(given.out, cell.file, result)
            print(f"{cell.file}: {result['test']:.4f}", file=sys.stderr)
    found = {cell: stored.read(cell.file) or {} for cell in cells}
    stored.pack()
    written = table(found, given.seeds)
    print(written)
    if given.page.exists():
        text = given.page.read_text()
        head, rest = text.split(BEGIN)
        given.page.write_text(f"{head}{BEGIN}\n\n{written}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
