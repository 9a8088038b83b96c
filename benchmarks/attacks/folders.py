"""Folders of runs, damaged by accident: resume, report and predict refuse, or give what the whole folder gives."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

import fedgraft
from attacks.mutations import bytes_changed, one_of
from attacks.outcomes import Outcome, outcome
from attacks.small_runs import store
from fedgraft.errors import FedgraftError
from fedgraft.experiment.running.runner import resume
from fedgraft.experiment.storage.run_folder import RunFolder

NAMES: Final = ("graft_node", "fedacs", "cefgl")
ROUNDS: Final = 4
MINE: Final = "mine: neither a run's nor anybody's to delete"
PAIRS: Final = pd.DataFrame({"user": ["user-01", "user-02"], "item": ["item-01", "item-02"]})


@dataclass(frozen=True)
class Whole:
    """A run that ended, the same one as it was after two rounds, and what each command says of it."""

    ended: Path
    stopped: Path
    told: dict[str, Any]


def whole(name: str, folder: Path) -> Whole:
    """Run one of the recipes, twice."""
    ended, stopped = folder / f"{name}-ended", folder / f"{name}-stopped"
    store(name, ended, rounds=ROUNDS)
    store(name, stopped, stop=2, rounds=ROUNDS)
    return Whole(ended, stopped, {command: ask(ended) for command, ask in COMMANDS.items()})


def resumed(folder: Path) -> Any:
    """What `fedgraft resume` leaves: the digest, all rounds but their seconds, the ledger."""
    digest = resume(folder)["digest"]
    return digest, *_rows(folder)


def _rows(folder: Path) -> tuple[Any, Any]:
    opened = RunFolder.open(folder)
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in opened.rows()]
    return rows, list(opened.entries())


def reported(folder: Path) -> Any:
    """What `fedgraft report` shows: scores, bytes, rounds, and that there is a page."""
    run = fedgraft.open(folder)
    page = run.report(folder / "page.html")
    summary = run.summary
    return [summary[key] for key in ("digest", "bytes", "test", "validation", "rounds")], page.stat().st_size > 10_000


def predicted(folder: Path) -> Any:
    """What `fedgraft predict` answers; of runs that are asked for no ratings a client's model."""
    run = fedgraft.open(folder)
    if run.experiment.recipe.sections["task"]["name"] == "rating":
        return run.predict(PAIRS).to_csv()
    return {name: tensor.tolist() for name, tensor in next(iter(run.models.values())).state_dict().items()}


COMMANDS: Final[dict[str, Callable[[Path], Any]]] = {"resume": resumed, "report": reported, "predict": predicted}


def damaged(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """Random damage to a run that ended or was stopped, then a command."""
    wholes: dict[str, Whole] = {}
    number = 0
    while True:
        name = NAMES[number % len(NAMES)]
        if name not in wholes:
            wholes[name] = whole(name, folder)
        number += 1
        command = "resume" if g.random() < 0.7 else one_of(("report", "predict"), g)
        copy = folder / "copy"
        source = wholes[name].stopped if command == "resume" and g.random() < 0.7 else wholes[name].ended
        shutil.copytree(source, copy)
        what = damage(copy, g)
        yield asked(command, copy, wholes[name], f"{command} after {what}")
        shutil.rmtree(copy)


def asked(command: str, folder: Path, whole: Whole, what: str) -> Outcome:
    """Ask a command, with files of somebody else beside, and hold its answer against what it should be."""
    others = [folder / "notes.txt", folder / "checkpoint" / "best.pt", folder.parent / "thesis.tex"]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text(MINE)

    def ask() -> str:
        return "" if COMMANDS[command](folder) == whole.told[command] else f"another result: {what}"

    found = outcome(ask, (FedgraftError,))
    if any(not path.is_file() or path.read_text() != MINE for path in others):
        return Outcome("wrong", f"somebody's file is gone: {what}")
    return Outcome(found.what, f"{found.said}: {what}") if found.said else found


def damage(folder: Path, g: np.random.Generator) -> str:
    """Damage one file of a folder, or two; what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    done = []
    for _ in range(int(g.integers(1, 3))):
        path, what = one_of(files, g), int(g.integers(8))
        content = path.read_bytes() if path.exists() else b""
        if what == 0:
            path.unlink(missing_ok=True)
        elif what == 1:
            path.write_bytes(content[: int(g.integers(len(content) + 1))])
        elif what == 2:
            path.write_bytes(g.bytes(len(content)))
        elif what == 3:
            path.write_bytes(one_of(files, g).read_bytes() if one_of(files, g).exists() else b"")
        elif what == 4:
            path.write_bytes(content + content[: int(g.integers(1, 200))])
        elif what == 5 and content:
            at = int(g.integers(len(content)))
            digit = chr(content[at]).isdigit()
            other = b"%d" % ((content[at] - 47) % 10) if digit else bytes([content[at] ^ 1 << int(g.integers(8))])
            path.write_bytes(content[:at] + other + content[at + 1 :])
        else:
            path.write_bytes(bytes_changed([content], g))
        done.append(f"{('gone', 'cut', 'noise', 'swapped', 'longer', 'a byte', 'bytes', 'bytes')[what]} {path.name}")
    return ", ".join(done)
