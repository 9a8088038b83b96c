"""Compare two commits: the same short runs must end with the same digest, bytes and scores.

    python benchmarks/same_results.py BASE [OTHER] [--only WORD]

Each commit is checked out beside the repository. The runs of both take turns on this machine, since digests differ
between processors. OTHER is the working tree by default. Options that have moved since are said by the name that each
tree has for them; write them here by the earlier one. Exit code 1 if any run differs.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedgraft.experiment.recipes.upgrading import MOVED, where
from own_tables import write_tables

ROOT = Path(__file__).resolve().parents[1]
MOVED_OPTIONS = "fedgraft/experiment/recipes/upgrading.py"
COMPARED = (
    "digest",
    "bytes",
    "validation",
    "test",
    "test_at_best_validation",
    "flops",
    "simulated_seconds",
    "yardsticks",
)
SHOPS = ("data.users=120", "data.items=60", "data.count=1500", "rounds=4")
MOLECULES = ("data.clients=4", "data.graphs=24", "rounds=5", "model.hidden=8")
PLAIN_BLOCKS = ("data.name=blocks", "data.nodes=600", "data.clients=4", "rounds=4", "model.hidden=[16,8]")
BLOCKS = (*PLAIN_BLOCKS, "selector.clients=3")
NODES = ("data.name=nodes", "data.nodes={tables}/nodes.csv", "data.edges={tables}/edges.csv", "rounds=3")
GRAPHS = ("data.name=graphs", "data.nodes={tables}/graph_nodes.csv", "data.edges={tables}/graph_edges.csv", "rounds=3")
RATINGS = ("data.name=table", "data.ratings={tables}/ratings.csv", "data.trust={tables}/trust.csv", "rounds=3")
TYPED = (
    "data.name=typed_graph",
    "data.target=paper",
    "data.nodes={tables}/typed_nodes.csv",
    "data.edges={tables}/typed_edges.csv",
    "rounds=3",
)
FEW_DEVICES = ("data.clients=3", "selector.clients=2", "clock.devices=lognormal", "rounds=3")
CHAIN = 'codec=[{name="low_rank",rank=2},{name="quantized",bits=4}]'
RUNS: dict[str, tuple[str, ...]] = {
    "rating": ("fedacs", *SHOPS),
    "rating-clients": ("fedacs", *SHOPS, "evaluation.at=clients", "runtime.workers=0"),
    "rating-oort": ("fedacs", *SHOPS, "selector.name=oort", "sharing.name=fedprox", "codec=float16"),
    "rating-choice": (
        "fedacs",
        *SHOPS,
        "selector.name=power_of_choice",
        "sharing.name=scaffold",
        "sampler.name=uniform",
    ),
    "rating-harmony": ("fedacs", *SHOPS, "selector.name=harmony", "sharing.name=fedper", "dropout.rate=0.3"),
    "rating-budget": ("fedacs", *SHOPS, "budget.bytes=700kB", "codec.name=sparse", "codec.feedback=true"),
    "graph": ("cefgl", *MOLECULES),
    "graph-clients": ("cefgl", *MOLECULES, "evaluation.at=clients", "runtime.workers=0"),
    "graph-fedavg": ("cefgl", *MOLECULES, "sharing.name=fedavg", CHAIN, "downlink=float16"),
    "graph-gcfl": (
        "cefgl",
        *MOLECULES,
        "sharing.name=gcfl",
        "sharing.after=1",
        "sharing.mean_norm=9.0",
        "sharing.max_norm=0.0",
    ),
    "graph-fedstar": ("cefgl", *MOLECULES, "sharing.name=fedstar", "model.name=gcn", "model.embedding=8"),
    "graph-local": ("cefgl", *MOLECULES, "sharing.name=local"),
    "graph-spreadgnn": ("cefgl", *MOLECULES, "sharing.name=spreadgnn", "dropout.rate=0.2"),
    "graph-fedper": ("cefgl", *MOLECULES, "sharing.name=fedper", "codec.name=quantized", "codec.bits=5"),
    "node-fedais": ("fedais", *BLOCKS),
    "node-fedais-2": ("fedais", *BLOCKS, "runtime.workers=2", "evaluation.at=clients", "rows.bits=3"),
    "node-fedall": ("fedall", *BLOCKS),
    "node-moved": (
        "fedall",
        *BLOCKS,
        "task.neighbours=3",
        "task.halo=4",
        "task.propagate=1",
        "task.logit_adjustment=1",
    ),
    "node-local": ("fedlocal", *BLOCKS),
    "node-fedpns": ("fedpns", *BLOCKS, "sharing.name=fedprox"),
    "node-fedgraph": ("fedgraph", *BLOCKS),
    "node-fedgcn": ("fedgcn", *BLOCKS, "model.name=gcn"),
    "node-fedsage": ("fedsage_plus", *BLOCKS, "runtime.workers=2"),
    "node-levers": ("three_levers", *PLAIN_BLOCKS, CHAIN),
    "node-scaffold": ("fedais", *BLOCKS, "sharing.name=scaffold", "codec=identity"),
    "node-graft": ("graft_node", *PLAIN_BLOCKS[:-1]),
    "node-regression": ("node_regression", *PLAIN_BLOCKS),
    "link": ("links", *PLAIN_BLOCKS[:-1], "model.hidden=8"),
    "typed": ("rafhgl", "data.name=typed_blocks", "data.clients=4", "selector.clients=2", "rounds=3"),
    "ranking": ("reputation_ucb", "data.name=catalogue", *FEW_DEVICES),
    "graph-graft": ("graft_graph", *MOLECULES[:-1]),
    "rating-graft": ("graft_rating", *SHOPS),
    "rating-graft-shared": ("graft_rating", *SHOPS, "sharing.name=fedper"),
    "own-nodes": ("graft_node", *NODES),
    "own-nodes-fedais": ("fedais", *NODES, "selector.clients=2", "model.hidden=[8,8]"),
    "own-numbers": ("node_regression", *NODES, "data.nodes={tables}/numbers.parquet"),
    "own-links": ("links", *NODES, "model.hidden=8"),
    "own-typed": ("rafhgl", *TYPED, "selector.clients=2"),
    "own-graphs": ("graft_graph", *GRAPHS, "data.graphs={tables}/graphs.csv"),
    "own-sizes": (
        "graph_regression",
        *GRAPHS,
        "data.graphs={tables}/sizes.csv",
        "data.label=size",
    ),
    "own-ratings": ("graft_rating", *RATINGS, "data.clients=3"),
    "own-ratings-time": ("fedacs", *RATINGS, "data.time=time", "data.clients=3"),
    "own-clicks": (
        "reputation_ucb",
        "data.name=interactions",
        "data.interactions={tables}/clicks.csv",
        "data.items={tables}/items.csv",
        *FEW_DEVICES,
    ),
}
"""Short runs over all tasks, sharing methods, samplers, selectors, codecs and readers of own tables."""


@contextmanager
def checked_out(commit: str | None) -> Iterator[Path]:
    """A folder with a commit's files, gone afterwards; the working tree for None."""
    if commit is None:
        yield ROOT
        return
    with TemporaryDirectory() as parent:
        folder = Path(parent) / "tree"
        subprocess.run(
            ["git", "-C", str(ROOT), "worktree", "add", "--detach", str(folder), commit],
            check=True,
            capture_output=True,
        )
        try:
            yield folder
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(folder)], check=True)


def upgraded_override(text: str) -> str:
    """An override with the name that the option has now."""
    option = text.partition("=")[0].removeprefix("task.")
    return text.replace(f"task.{option}", where(option), 1) if option in MOVED else text


def measured(tree: Path, tables: Path, name: str) -> dict[str, Any]:
    """What a run of a tree's code ends with; only "error" if it fails. Own tables are held against baselines."""
    arguments = [argument.format(tables=tables) if "{tables}" in argument else argument for argument in RUNS[name]]
    baselines = [] if name.startswith("own-") else ["yardsticks=[]"]
    if (tree / "src" / MOVED_OPTIONS).is_file():
        arguments = [upgraded_override(argument) for argument in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "fedgraft", "run", *arguments, *baselines, "--seed", "3", "--json", "-q"],
        env={**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"},
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"error": done.stderr.strip()[-300:]}
    summary = json.loads(done.stdout)
    summary["bytes"] = {name: count for name, count in summary["bytes"].items() if count}  # purposes are added
    return {key: summary[key] for key in COMPARED}


def main() -> int:
    """Compare, print a line a run, and tell by the exit code whether all were the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="a commit")
    parser.add_argument("other", nargs="?", help="another; the working tree by default")
    parser.add_argument("--only", default="", help="runs whose name holds this word")
    options = parser.parse_args()
    different = 0
    with checked_out(options.base) as before, checked_out(options.other) as after, TemporaryDirectory() as folder:
        write_tables(Path(folder))
        for name in RUNS:
            if options.only not in name:
                continue
            one, two = (measured(tree, Path(folder), name) for tree in (before, after))
            same = one == two and "error" not in one
            different += not same
            print(f"{name:16} {'same' if same else 'DIFFERENT'}  {one.get('digest', one.get('error'))}", flush=True)
            if one != two:
                print(
                    "\n".join(
                        f"  {key}: {one.get(key)} -> {two.get(key)}"
                        for key in {**one, **two}
                        if one.get(key) != two.get(key)
                    )
                )
    print("all the same" if not different else f"{different} of the runs differ or failed")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
