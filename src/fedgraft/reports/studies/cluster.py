"""The cells of a study on a Ray cluster."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fedgraft.errors import missing_extra, require
from fedgraft.reports.studies.processes import Call, Write


def on_cluster(calls: Sequence[Call], on: str, jobs: int, write: Write) -> Iterator[Call]:
    """Yield each call as it ends, each a task of a Ray cluster; what they find is written here.

    `on` is "ray:ADDRESS" of a cluster, which makes as many calls at a time as it has CPUs, or "ray" for a Ray on this
    machine, which makes `jobs`.
    """
    with missing_extra("ray", by="--on ray"):
        from fedgraft.runtimes.ray_cluster.tasks import results
    for index, files in results([partial(_collected, call.run) for call in calls], address_of(on), jobs, "--on ray:"):
        for name, content in files.items():
            write(name, content)
        yield calls[index]


def address_of(on: str) -> str:
    """Return the address in "ray:ADDRESS"; "" in "ray". Raises `InputError` for anything else."""
    kind, _, address = on.partition(":")
    require(kind == "ray", "--on", "ray, or ray:ADDRESS such as ray:auto", on)
    return address


def _collected(run: Callable[[Write], None]) -> dict[str, Mapping[str, Any]]:
    """Return {name: content} of all files that a call writes."""
    files: dict[str, Mapping[str, Any]] = {}
    run(files.__setitem__)
    return files
