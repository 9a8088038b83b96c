"""What `runtime.portable` costs: seconds of a run's rounds with it over those without, in turns.

python benchmarks/portable.py [REPEATS]
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import Round, in_turns, ratio

RUNS = {
    "ratings": ("fedacs", "data.name=shops"),
    "graphs": ("cefgl", "data.name=molecules"),
    "nodes": ("fedais", "data.name=blocks", "data.clients=20"),
}
COMMON = ("rounds=5", "baselines=[]", "runtime.workers=0", "--seed", "1", "--quiet", "--json")


def run(arguments: tuple[str, ...], portable: bool) -> Round:
    """A run in a process of its own; it returns the seconds of its rounds, without what begins and ends a process."""

    def once(number: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            option = f"runtime.portable={str(portable).lower()}"
            command = [sys.executable, "-m", "fedgraft", "run", *arguments, option, *COMMON, "--out", folder]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            rows = [json.loads(line) for line in (Path(folder) / "rounds.jsonl").read_text().splitlines()]
        return float(rows[-1]["seconds"] - rows[0]["seconds"]) / (len(rows) - 1)

    return once


def main() -> None:
    """Print, for each task, seconds a round without and with the option, and the median of their ratios."""
    repeats = int(sys.argv[1]) if sys.argv[1:] else 5
    for name, arguments in RUNS.items():
        seconds = in_turns({"as it is": run(arguments, False), "portable": run(arguments, True)}, repeats)
        fastest = {variant: min(each) for variant, each in seconds.items()}
        print(
            f"{name}: {fastest['as it is']:.3f} s a round, portable {fastest['portable']:.3f} s, ratio "
            f"{ratio(seconds, 'portable', 'as it is'):.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
