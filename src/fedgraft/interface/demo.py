"""The demonstration, `make demo`: our own recipe, FedACS and each shop alone, side by side.

Shops are made up, so nothing is downloaded. Everything is written below one folder, which a second run replaces.
"""

import argparse
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGINT
from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape

from fedgraft.errors import FedgraftError, InputError, Interrupted, printable
from fedgraft.experiment.recipes.units import human_bytes, human_seconds
from fedgraft.interface import api
from fedgraft.interface.finished import Run
from fedgraft.reports.pages.outcome import outcome
from fedgraft.reports.stored import comparison
from fedgraft.reports.stored.stored_runs import open_runs
from fedgraft.runtimes.workers import signals
from fedgraft.tables.table_files import write_csv

DESCRIPTION = "fedgraft demo"
"""Marks the demonstration's own runs, which alone are replaced."""
SHOPS = {"data.name": "shops", "data.users": 2500, "data.items": 6000, "data.count": 60_000}
SETTINGS = {"description": DESCRIPTION, "seed": 1, **SHOPS}

METHODS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "graft_rating": ("our own recipe: users told of once, then each shop alone", "graft_rating", {"rounds": 12}),
    "fedacs": ("FedACS: two bandits choose how many shops train, and which", "fedacs", {"rounds": 24}),
    "alone": (
        "nothing is sent: the network of our own recipe, and nothing told of users",
        "graft_rating",
        {"rounds": 12, "task.share": "nothing"},
    ),
}
"""{name: (what it is, recipe, what differs from it)}; the first is what pairs are predicted with."""
REPORT, PAIRS = "report.html", "pairs.csv"
_HINTS = """[bold]Report[/bold]    {report}  (one file, opens offline)
[bold]Predict[/bold]   fedgraft predict {out}/graft_rating --pairs {out}/pairs.csv -o {out}/ratings.csv
[bold]Go on[/bold]     fedgraft compare {out}/graft_rating {out}/fedacs {out}/alone --target rmse={target:.4f}"""


def demo(out: Path, changes: Mapping[str, Any] | None = None, progress: bool = True) -> list[dict[str, Any]]:
    """Run the three runs of the demonstration.

    Args:
        out: where runs and report go; an older demonstration there is replaced.
        changes: {"section.key": value} for every method, such as a smaller data set.
        progress: show progress.

    Returns:
        The comparison's rows. Raises `InputError` if `out` holds anything but a demonstration.
    """
    settings = {**SETTINGS, **(changes or {})}
    console = Console(highlight=False)
    _make_room(out)
    console.print("Shops learn from each other, and ratings stay with them.")
    for number, (name, (what, recipe, options)) in enumerate(METHODS.items(), 1):
        console.print(f"\n[bold]{number}/{len(METHODS)}  {what}[/bold]")
        run = api.run(recipe, out=out / name, overrides={**settings, **options, **(changes or {})}, progress=progress)
        console.print(f"     {_result(run)}")
    runs = open_runs([out / name for name in METHODS])
    target = runs[list(METHODS).index("fedacs")].best_validation
    table = comparison.rows(runs, target)
    console.print()
    console.print(comparison.render(table, "Side by side; the target is what FedACS reaches"))
    console.print(escape(outcome([run.summary for run in runs], list(METHODS))), soft_wrap=True)
    first, *others = METHODS
    report = api.open(out / first).report(
        out / REPORT, *(out / name for name in others), target=target, title="fedgraft demo: made-up shops"
    )
    write_csv(_ask(api.open(out / first)), out / PAIRS)
    console.print(_HINTS.format(report=escape(str(report)), out=escape(str(out)), target=target), soft_wrap=True)
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and run the demonstration."""
    parser = argparse.ArgumentParser("python -m fedgraft.interface.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of runs and report (default: demo)")
    messages = Console(stderr=True, highlight=False, soft_wrap=True)
    out = parser.parse_args(arguments).out
    try:
        demo(out)
    except (Interrupted, KeyboardInterrupt) as error:
        number = getattr(error, "number", SIGINT)
        messages.print(f"{signals.text_of(number)}; started again, the demonstration begins anew.")
        sys.exit(128 + number)
    except (FedgraftError, OSError) as error:
        messages.print(f"[red]error:[/red] {escape(printable(str(error)))}")
        sys.exit(2 if isinstance(error, InputError | OSError) else 1)


def _make_room(out: Path) -> None:
    """Remove an older demonstration's runs, and nothing else."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())) and not any(_is_ours(out / name) for name in METHODS):
        raise InputError(f"--out {out} exists and is not an older demonstration; choose another folder.")
    foreign = next((out / name for name in METHODS if (out / name).exists() and not _is_ours(out / name)), None)
    if foreign is not None:
        raise InputError(f"{foreign} is not the demonstration's; choose another --out.")
    for name in METHODS:
        if (out / name).exists():
            shutil.rmtree(out / name)


def _is_ours(folder: Path) -> bool:
    try:
        return bool(tomllib.loads((folder / "experiment.toml").read_text()).get("description") == DESCRIPTION)
    except (OSError, ValueError):
        return False


def _result(run: Run) -> str:
    summary = run.summary
    scores = (
        f"rmse {run.history['validation'].min():.4f} on validation, {summary['test_at_best_validation']:.4f} on test"
    )
    size, seconds = human_bytes(summary["bytes"]["total"]), human_seconds(summary["seconds"])
    return f"{summary['rounds']} rounds in {seconds}, {size}: {scores}"


def _ask(run: Run) -> pd.DataFrame:
    """Some pairs to predict: each shop's first user and items."""
    shards = run.experiment.shards()
    return pd.DataFrame([{"user": shard.user_ids[0], "item": item} for shard in shards for item in shard.item_ids[:2]])


if __name__ == "__main__":
    main()
