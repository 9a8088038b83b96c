"""Data, names and answers that are code: pickles that call, escapes for terminals, HTML, formulas of spreadsheets."""

import os
import pickle
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

import fedgraft
from attacks.children import run, wrong
from attacks.mutations import bytes_changed, one_of
from attacks.outcomes import HELD, Outcome, outcome
from attacks.small_runs import experiment, store
from fedgraft import wire
from fedgraft.errors import AllClientsFailedError, FedgraftError
from fedgraft.experiment.job import Job, load
from fedgraft.testing.runs import Reply, play
from fedgraft.wire import Message

PARTS: Final = ("x", "tx", "allx", "y", "ty", "ally", "graph")
ESCAPES: Final = (
    "\x1b[2J\x1b[H",
    "\nround 9/9: accuracy 1.0",
    "\r\x1b]0;title\x07",
    "\u202egnp.exe",
    "\x9b2J",
    "\u2028x",
)
EVIL: Final = (
    "<script>alert(1)</script>",
    "<a href='https://evil'>a</a>",
    "<img src=x onerror=alert(1)>",
    "</script><b>",
)
FORMULAS: Final = ("=HYPERLINK(A1)", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "=cmd|' /C calc'!A0", "\uff1d1+1")


# --- code in data -----------------------------------------------------------------------------------------------------


class _Calls:
    """A pickle that calls when it is read."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = function, arguments

    def __reduce__(self) -> Any:
        return self._call


def code(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """Pickles in Planetoid's files that call, and classes in the recipes of others: nothing is run."""
    mark, raw = folder / "ran", folder / "Cora" / "raw"
    raw.mkdir(parents=True)
    calls = [
        lambda: _Calls(os.system, f"touch {mark}"),
        lambda: _Calls(mark.touch),
        lambda: _Calls(eval, f"open({str(mark)!r}, 'w')"),
        lambda: _Calls(subprocess.check_output, ["touch", str(mark)]),
        lambda: _Calls(getattr, _Calls(__import__, "os"), "system"),
        lambda: _Calls(np.fromfile, str(mark)),
    ]
    honest = {part: pickle.dumps(_matrix(part), protocol=4) for part in PARTS}
    for number in range(10_000):
        for part, content in honest.items():
            (raw / f"ind.cora.{part}").write_bytes(content)
        (raw / "ind.cora.test.index").write_text("3\n4\n5\n")
        content = pickle.dumps(one_of(calls, g)(), protocol=int(g.integers(5)))
        if number % 3:
            content = bytes_changed([content, *honest.values()], g)
        (raw / f"ind.cora.{one_of(PARTS, g)}").write_bytes(content)
        made = load("fedais", {"data.name": "cora", "data.root": str(folder), "data.clients": 2, "baselines": []})
        found = outcome(partial(_loaded, made), (FedgraftError, MemoryError))
        if mark.exists():
            mark.unlink()
            yield Outcome("wrong", "a pickle ran code")
        yield found
        if number % 50 == 0:
            yield _class_of_others(folder, mark)


def _loaded(made: Job) -> str:
    return "" if len(made.shards()) == 2 else "other clients"


def _matrix(part: str) -> Any:
    if part == "graph":
        return {k: [(k + 1) % 6, (k + 5) % 6] for k in range(6)}
    rows = {"x": 2, "y": 2, "tx": 3, "ty": 3}.get(part, 3)
    return np.eye(rows, 3, dtype=np.int32) if "y" in part else csr_matrix(np.eye(rows, 4, dtype=np.float32))


def _class_of_others(folder: Path, mark: Path) -> Outcome:
    """Somebody's run names a class beside it: resume refuses before it is imported."""
    at = folder / "others"
    store("graft_node", at, stop=1)
    (folder / "evilmod.py").write_text(f"open({str(mark)!r}, 'w')\n")
    text = (at / "experiment.toml").read_text()
    (at / "experiment.toml").write_text(text.replace("baselines = []", 'baselines = ["evilmod:Class"]'))
    before = Path.cwd()
    os.chdir(folder)
    code, said = run(["resume", at, "-q"], folder / "log")
    os.chdir(before)
    shutil.rmtree(at)
    return Outcome("wrong", "a class of others was imported") if mark.exists() else _ended(code, said)


def _ended(code: int | None, said: str) -> Outcome:
    bad = wrong(code, said, (1, 2))
    return Outcome("crash", bad) if bad else Outcome("refused")


# --- what is shown ----------------------------------------------------------------------------------------------------


def shown(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """Errors with escapes for terminals; names with HTML in a report; ids that are formulas in a table of answers."""
    for text in ESCAPES:
        yield outcome(partial(_told, text), ())
    for text in (*EVIL, *FORMULAS):
        for where in ("client", "user", "item"):
            yield _named(text, where, folder)


def _told(text: str) -> str:
    """One client in each run says this in place of its answer, then all do."""
    rows = play(experiment("graft_node"), tamper=_error(text, (0,))).rows
    reasons = [reason for row in rows for reason in row.failed.values()]
    try:
        play(experiment("graft_node"), tamper=_error(text, (0, 1, 2)))
    except AllClientsFailedError as error:
        reasons += error.reasons.values()
    wrong = [reason for reason in reasons if not reason.isprintable()]
    return f"{wrong[0]!r} reaches terminals" if wrong or not reasons else ""


def _error(text: str, clients: tuple[int, ...]) -> Any:
    def tamper(kind: str, round: int, client: int, reply: Reply) -> Reply:
        lies = kind in ("train", "alone") and client in clients
        return wire.encode(Message("error", round, text=text)) if lies else reply

    return tamper


def _named(text: str, where: str, folder: Path) -> Outcome:
    """Names of clients, users or items of an own table are this; the report and the answers."""
    ids = np.arange(240)
    table = pd.DataFrame({"user": ids % 17, "item": ids // 12, "client": ids % 2, "category": 0}).astype(str)
    table["rating"] = 1 + ids % 5
    table[where] = text + table[where]
    asked = table[["user", "item", "client"]].head(3)
    free = {"rounds": 1, "runtime": {"workers": 0}, "baselines": ["global_mean"], "progress": False}
    out, page, answers = folder / "run", folder / "page.html", folder / "answers.csv"
    asked.to_csv(folder / "asked.csv", index=False)

    def show() -> str:
        fedgraft.run("fedacs", data=table, out=out, **free).report(page, title=text)
        return ""

    found = outcome(show, (FedgraftError,), seconds=60)
    if found.what == "held":
        code, said = run(["predict", out, "--pairs", folder / "asked.csv", "-o", answers], folder / "log")
        bad = wrong(code, said, (0,)) or _markup(page.read_text(), text) or _formula(answers)
        found = Outcome("wrong", f"{text!r} as {where}: {bad}") if bad else HELD
    shutil.rmtree(out, ignore_errors=True)
    return found


def _markup(page: str, text: str) -> str:
    """The text stands in the page as it is, in HTML or in the JSON of a figure, from which Plotly makes HTML."""
    raw = text in page or text.replace("<", "\\u003c").replace(">", "\\u003e") in page
    return "it is markup in the report" if text in EVIL and raw else ""


def _formula(answers: Path) -> str:
    cells = re.split(r'","|"\n"|^"|"$|,|\n', answers.read_text())
    found = [cell for cell in cells if cell.lstrip('"')[:1] in set("=+@\t\uff1d") or re.match(r'"?-\d\+', cell)]
    return f"a cell {found[0]!r} is a formula" if found else ""
