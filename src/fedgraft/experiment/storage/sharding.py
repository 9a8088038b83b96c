"""A recipe's data as a folder of files, one for each client: the beginning of a federation.

recipe.toml     the recipe, resolved, with all that its task knows of the data       clients.toml     their names
clients/        a file per client, to be handed to its site alone
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import tomli_w

from fedgraft.contracts.data import names_of
from fedgraft.errors import InputError
from fedgraft.experiment.job import Job
from fedgraft.experiment.storage import disk, folder_check
from fedgraft.experiment.storage.client_files import SUFFIX, packages_of, write_client
from fedgraft.runtimes.federation.folders import file_name

RECIPE: Final = "recipe.toml"
CLIENTS: Final = "clients.toml"
FILES: Final = "clients"


def shard(experiment: Job, folder: Path, written: Callable[[str, Path, int], None]) -> list[Path]:
    """Write a recipe's data to a folder, a file for each client.

    Args:
        experiment: the recipe.
        folder: not there yet, or empty; where the data cannot be loaded or written, it is left as it was.
        written: told of each client: its name, its file, the file's size in bytes.

    Returns:
        The clients' files, in their order. Raises `InputError`.
    """
    _check_free(folder)
    shards = experiment.shards()
    fitted = experiment.fitted(shards)
    recipe = fitted.to_toml().encode()
    names = list(names_of(shards))
    paths = [folder / FILES / f"{name}{SUFFIX}" for name in _file_names(names)]
    with disk.written(folder):
        made = [*folder_check.make(folder), *folder_check.make(folder / FILES)]
        (folder / FILES).chmod(0o700)
        try:
            for number, (name, path) in enumerate(zip(names, paths, strict=True)):
                size = write_client(path, number, name, fitted.task_name, shards[number], packages_of(fitted.data))
                written(name, path, size)
            disk.replace(folder, {CLIENTS: tomli_w.dumps({"names": names}).encode(), RECIPE: recipe})
        except BaseException:
            for path in (*paths, folder / CLIENTS, folder / RECIPE):
                disk.remove(path)
            folder_check.take_back(made)
            raise
    return paths


def _check_free(folder: Path) -> None:
    if names := folder_check.names_in(folder, folder):
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise InputError(f"{folder} is not empty: it holds {names[0]!r}{more}. Choose a folder that is new or empty.")


def _file_names(names: list[str]) -> list[str]:
    """Return a name of a file for each client, all distinct, whatever clients are called."""
    safe_names: dict[str, str] = {}  # by what a file system that knows no capitals takes for it
    for number, name in enumerate(names):
        safe = file_name(name) or "client"
        while safe.casefold() in safe_names:
            safe += f"-{number}"
        safe_names[safe.casefold()] = safe
    return list(safe_names.values())
