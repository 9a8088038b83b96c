"""One experiment with several seeds: a run for each, one after another, in a folder for all of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedgraft.errors import InputError, require
from fedgraft.experiment.job import Job
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.folder_check import EXPERIMENT, SUMMARY, check_free
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.interface.progress import Progress

RECIPE = "recipe.toml"
"""What all runs of the folder have in common."""


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of a text such as "1,2,3"."""
    parts = [part.strip() for part in text.split(",")]
    wrong = not all(part.isascii() and part.isdigit() for part in parts)
    return check_seeds([] if wrong else list(map(int, parts)), "--seeds", text, "1,2,3")


def check_seeds(seeds: Sequence[Any], parameter: str, got: object, example: str) -> list[int]:
    """Return two or more seeds, all different. Raises `InputError` for others, with what was given and an example."""
    whole = all(isinstance(seed, int | np.integer) and not isinstance(seed, bool) and seed >= 0 for seed in seeds)
    allowed = f"two different whole numbers >= 0 or more, such as {example}"
    require(whole and len(set(seeds)) == len(seeds) > 1, parameter, allowed, got)
    return [int(seed) for seed in seeds]


def run_seeds(
    experiment: Job,
    seeds: Sequence[int],
    folder: Path,
    quiet: bool,
    say: Callable[[str], object],
    stored: Callable[[Job, Path], Job] | None = None,
) -> list[dict[str, Any]]:
    """Run an experiment with every seed, its own not counted, and return the runs' summaries, each with its folder.

    Started again, it keeps finished runs, takes up one that was stopped, and runs what is missing. `stored` returns the
    experiment with what was given in memory stored in the folder, for all seeds. Raises `InputError` for a folder that
    holds anything else, such as runs with other settings.
    """
    experiment = _begun(experiment, folder, stored)
    summaries = []
    for seed in seeds:
        path = folder / f"seed-{seed}"
        if (path / SUMMARY).exists():
            summary = RunFolder.open(path).summary()
        else:
            say(f"seed {seed}, in {path}")
            one = experiment.with_changes({"seed": seed})
            with Progress.of(one, quiet) as progress:
                begun = (path / EXPERIMENT).exists()
                summary = resume(path, progress) if begun else execute(one, path, progress)
        summaries.append({**summary, "folder": str(path)})
    return summaries


def _begun(experiment: Job, folder: Path, stored: Callable[[Job, Path], Job] | None) -> Job:
    """Note what the runs have in common, or hold it against what the folder has."""
    path = folder / RECIPE
    if is_new := not path.is_file():
        check_free(folder)
    experiment = experiment if stored is None else stored(experiment, folder)
    common = {name: value for name, value in experiment.recipe.sections.items() if name != "seed"}
    text = replace(experiment.recipe, sections=common).to_toml()
    if is_new:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    elif path.read_text() != text:
        raise InputError(f"{folder} holds runs with other settings, see {path}. Choose another folder.")
    return experiment
