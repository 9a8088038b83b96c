"""Folders that somebody has tampered with, or that were never a run's: the cases of the auditor, by hand."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from attacks.folders import MINE, ROUNDS, asked, resumed, whole
from attacks.outcomes import HELD, REFUSED, Outcome, outcome
from attacks.small_runs import experiment, store
from fedgraft.errors import FedgraftError
from fedgraft.experiment.running.runner import execute

NAME = "graft_node"


def tampered(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """Each case once: it must be refused, and nobody's files may change."""
    known = whole(NAME, folder)
    store(NAME, folder / "other", stop=2, rounds=ROUNDS, seed=2)
    store(NAME, folder / "slower", stop=2, rounds=ROUNDS, training__learning_rate=0.5)
    for case in CASES:
        copy = folder / "copy"
        shutil.copytree(known.stopped, copy)
        found = case(copy, folder) or asked("resume", copy, known, case.__name__)
        yield _refused(found, case.__name__)
        shutil.rmtree(copy)
    for path in ("rounds.jsonl", "ledger.jsonl", "summary.json"):
        copy = folder / "copy"
        for command in ("report", "resume"):
            shutil.copytree(known.ended, copy)
            text = (copy / path).read_text()
            at = next(k for k in range(len(text) // 2, len(text)) if text[k].isdigit() and text[k] != "9")
            (copy / path).write_text(f"{text[:at]}{int(text[at]) + 1}{text[at + 1 :]}")
            yield asked(command, copy, known, f"a digit of {path} is another")
            shutil.rmtree(copy)
    for names in FOREIGN:
        yield _begun(folder / "proj", names, {})
        yield _begun(folder / "proj", names, {"budget__bytes": 10})


def _refused(found: Outcome, what: str) -> Outcome:
    return Outcome("wrong", f"{what}: it goes on") if found.what == "held" else found


# --- runs of others, and damage by hand (F8, F9) ---------------------------------------------------------------------


def checkpoint_of_another_seed(run: Path, folder: Path) -> None:
    _moved(run, folder / "other", ("checkpoint", "rounds.jsonl", "ledger.jsonl"))


def checkpoint_of_another_seed_alone(run: Path, folder: Path) -> None:
    _moved(run, folder / "other", ("checkpoint",))


def checkpoint_of_another_learning_rate(run: Path, folder: Path) -> None:
    _moved(run, folder / "slower", ("checkpoint", "rounds.jsonl", "ledger.jsonl"))


def origin_is_gone(run: Path, folder: Path) -> None:
    (run / "origin.json").unlink()


def origin_is_empty(run: Path, folder: Path) -> None:
    (run / "origin.json").write_text("{}")


def another_learning_rate_is_asked_for(run: Path, folder: Path) -> None:
    shutil.copy(folder / "slower" / "experiment.toml", run)


def experiment_is_not_utf_8(run: Path, folder: Path) -> None:
    (run / "experiment.toml").write_bytes((run / "experiment.toml").read_bytes() + b"# \xff\xfe\n")


def a_digit_of_the_rows_is_another(run: Path, folder: Path) -> None:
    text = (run / "ledger.jsonl").read_text()
    (run / "ledger.jsonl").write_text(text.replace('"bytes":', '"bytes":1', 1).replace('"bytes": ', '"bytes": 1', 1))


def a_memory_is_a_link(run: Path, folder: Path) -> Outcome | None:
    return _linked(run / "checkpoint" / "state.bin.new", folder / "id_rsa")


def the_checkpoint_is_a_link(run: Path, folder: Path) -> Outcome | None:
    elsewhere = folder / "elsewhere"
    shutil.move(run / "checkpoint", elsewhere)
    (elsewhere / "thesis.tex").write_text(MINE)
    (run / "checkpoint").symlink_to(elsewhere)
    before = sorted(os.listdir(elsewhere))
    found = outcome(lambda: str(resumed(run)[0]), (FedgraftError,))
    same = before == sorted(os.listdir(elsewhere)) and (elsewhere / "thesis.tex").read_text() == MINE
    shutil.rmtree(elsewhere)
    if not same:
        return Outcome("wrong", "a link leads to somebody's folder, whose files are gone")
    return found if found.what == "refused" else Outcome("wrong", "a link is followed")


def _linked(path: Path, target: Path) -> Outcome:
    target.write_text(MINE)
    path.symlink_to(target)
    found = outcome(lambda: str(resumed(path.parents[1])[0]), (FedgraftError,))
    if target.read_text() != MINE:
        return Outcome("wrong", f"{path.name} is a link, and what it leads to is overwritten")
    return found if found.what == "refused" else Outcome("wrong", f"{path.name} is a link, and is followed")


def _moved(run: Path, other: Path, names: tuple[str, ...]) -> None:
    for name in names:
        old = run / name
        shutil.rmtree(old) if old.is_dir() else old.unlink()
        shutil.copytree(other / name, old) if (other / name).is_dir() else shutil.copy(other / name, old)


CASES: tuple[Callable[[Path, Path], Outcome | None], ...] = (
    checkpoint_of_another_seed,
    checkpoint_of_another_seed_alone,
    checkpoint_of_another_learning_rate,
    origin_is_gone,
    origin_is_empty,
    another_learning_rate_is_asked_for,
    experiment_is_not_utf_8,
    a_digit_of_the_rows_is_another,
    a_memory_is_a_link,
    the_checkpoint_is_a_link,
)

# --- folders of somebody (F1) ----------------------------------------------------------------------------------------

FOREIGN = (
    ("checkpoint/best.pt", "summary.json", "model.safetensors", "environment.json"),
    ("environment.json", "origin.json", "ledger.jsonl"),
    ("rounds.jsonl",),
    ("notes.txt",),
)


def _begun(folder: Path, names: tuple[str, ...], options: dict[str, object]) -> Outcome:
    """Begin a run where somebody has files: refused, and all as it was."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(MINE))
    found = outcome(lambda: str(execute(experiment(NAME, **options), folder)), (FedgraftError,))
    left = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    shutil.rmtree(folder, ignore_errors=True)
    if left != dict.fromkeys(names, json.dumps(MINE)):
        return Outcome("wrong", f"a run begins where somebody has {', '.join(names)}")
    return REFUSED if found.what == "refused" else HELD
