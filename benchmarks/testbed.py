"""A federation over slow links on one machine: the server and its sites in network namespaces of their own.

    make testbed                          # reputation-UCB, eight sites with the paper's links, over TLS
    make testbed ARGS="--sites 3 --rounds 2 --recipe fedacs data.clients=3"

It needs root and iproute2. It prints real seconds beside the simulated clock's, and the bytes of the ledger beside the
counters of the server's network interface.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from federations import call, federation
from fedgraft.engine.server.clock import EDGE_CLOUD
from slow_network import SERVER, Refused, counted, network

RECIPE = ("reputation_ucb", "data.name=catalogue", "clock.devices=edge_cloud", "evaluation.at=clients")
IDLE_SECONDS = 10.0
"""How long the polls of nodes that have nothing to do are counted."""


def measure(root: Path, mbits: Sequence[float], recipe: Sequence[str], rounds: int) -> dict[str, Any]:
    """Run a recipe over such links, and return its figures beside those of the simulated clock."""
    changes = [f"rounds={rounds}", "baselines=[]", "checkpoint.every_seconds=0"]
    made, options = [*recipe, *changes], ("--host", SERVER)
    with network(mbits) as spaces, federation(root, made, *options, spaces=spaces) as fed:
        server = spaces[0]
        time.sleep(5)  # until all are connected: their greetings are no part of the run
        idle = counted(server)
        time.sleep(IDLE_SECONDS)
        before, began = counted(server), time.monotonic()
        said = call("run", fed / "recipe.toml", "--on", fed, "--out", root / "run", "--json", space=server)
        seconds, bytes_moved = time.monotonic() - began, counted(server) - before
    summary = json.loads(said)
    return {
        "rounds": summary["rounds"],
        "digest": summary["digest"],
        "ledger_bytes": summary["bytes"]["total"],
        "interface_bytes": bytes_moved,
        "idle_bytes_a_second": (before - idle) / IDLE_SECONDS,
        "over_ledger": bytes_moved / summary["bytes"]["total"] - 1,
        "simulated_seconds": summary["simulated_seconds"],
        "all_seconds": seconds,
    }


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sites", type=int, default=len(EDGE_CLOUD), help="with the paper's links, in its order")
    parser.add_argument("--recipe", nargs="+", default=[*RECIPE, "data.clients=8"], help="its name and overrides")
    options = parser.parse_args()
    mbits = [float(device["mbit_down"]) for device in EDGE_CLOUD[: options.sites]]
    root = Path(tempfile.mkdtemp(prefix="fedgraft-testbed-"))
    try:
        found = measure(root, mbits, options.recipe, options.rounds)
    except Refused as error:
        raise SystemExit(f"No testbed here: {error}.") from error
    except RuntimeError as error:  # of a command
        raise SystemExit(str(error)) from error
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for name, value in found.items():
        print(f"{name:>20}  {value:,.3f}" if isinstance(value, float) else f"{name:>20}  {value}")


if __name__ == "__main__":
    main()
