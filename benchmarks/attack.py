"""Attacks of an auditor, run again on the code as it is: changed bytes, damaged folders, kills, no room, liars.

    python benchmarks/attack.py [--minutes 30] [--seed 1] [--only messages] [--page docs/results/attacks.md]

Each kind gets its share of the time, and what others leave of theirs. The table goes to the terminal and, between its
marks, to a page.
"""

import argparse
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Final

import torch

from attacks.outcomes import FAILURES, Attack, class_of
from fedgraft.contracts import randomness

BEGIN, END = "<!-- tables: written by fedgraft study -->", "<!-- /tables -->"
SCRATCH = Path("runs")
"""In which a folder is made for what attacks write, and taken away again."""


@dataclass(frozen=True)
class Kind:
    """A kind of attack: "module:function" in `attacks`, its part of the time, what is tried, what was found before."""

    attack: str
    share: float
    what: str
    before: str

    @property
    def name(self) -> str:
        """What `--only` calls it."""
        return self.attack.partition(":")[2]

    def function(self) -> Attack:
        """The generator of its tries."""
        module, _, name = self.attack.partition(":")
        found: Attack = getattr(import_module(f"attacks.{module}"), name)
        return found


KINDS: Final = (
    Kind("messages:trees", 0.5, "trees, `wire.unpack`", "0 of 83,000"),
    Kind("messages:messages", 1.5, "messages, `wire.decode` and headers", "0 of 104,000"),
    Kind("codecs:codecs", 1.5, "codecs, `decode`, alone and composed", "0 of 63,000"),
    Kind("client:requests", 2, "a client's `serve`: requests, models, memories", "1 of 93,446"),
    Kind("server:replies", 2, "the server: replies changed, whole runs", "104 of 3,753"),
    Kind("folders:damaged", 2, "damaged run folders, random", "16 of 500"),
    Kind("by_hand:tampered", 1, "run folders, by hand (F1, F8, F9)", "F1, F8, F9 1-2"),
    Kind("kills:kills", 2, "kill -9 at random moments, resume", "0 of 48"),
    Kind("kills:kills_at_operations", 2, "kill -9 at the n-th operation on files, resume", "0 of 150"),
    Kind("limits:little_memory", 1.5, "little memory (`ulimit -v`), then resume", "2 of 13, tracebacks"),
    Kind("limits:no_room", 1.5, "full disk, small files, then resume", "3 of 15"),
    Kind("limits:read_only", 0.2, "read-only folder", "0 of 2"),
    Kind("limits:signalled", 1, "SIGTERM, SIGINT, SIGHUP, then resume", "2 of 8"),
    Kind("limits:together", 1, "two or three processes on one folder", "0 of 8"),
    Kind("texts:code", 0.7, "code in Planetoid's pickles, classes of others", "F7"),
    Kind("texts:shown", 1.5, "escapes, HTML, formulas in errors, names, ids", "F9 3-5"),
    Kind("budgets:budgets", 1, "random byte budgets", "0 of 781"),
    Kind("liars:liars", 1.5, "one liar of 4 or 5 clients", "run ends, victims named"),
)


@dataclass
class Found:
    """What a kind of attack came to."""

    kind: Kind
    tried: int = 0
    refused: int = 0
    seconds: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)

    @property
    def row(self) -> str:
        """A row of the table."""
        kinds = ", ".join(f"{count} {what}" for what, count in sorted(self.failed.items()))
        now = f"{self.failed.total()} ({kinds})" if kinds else "0"
        return f"| {self.kind.what} | {self.tried:,} | {self.refused:,} | {self.kind.before} | {now} |"


def attacked(kind: Kind, seconds: float, seed: int, scratch: Path) -> Found:
    """Try one kind of attack for so long, at least once."""
    found, began = Found(kind), time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"{kind.name}-", dir=scratch))
    tries = kind.function()(randomness.generator(seed, f"attack {kind.name}"), folder)
    for outcome in tries:
        found.tried += 1
        found.refused += outcome.what == "refused"
        if outcome.what in FAILURES:
            found.failed[outcome.what] += 1
            found.said[f"{outcome.what}: {class_of(outcome.said)}"] += 1
            if found.said[f"{outcome.what}: {class_of(outcome.said)}"] <= 2:
                print(f"  {kind.name} {found.tried}: {outcome.what}: {outcome.said}", file=sys.stderr)
        if time.monotonic() - began >= seconds:
            break
    tries.close()  # type: ignore[attr-defined]
    found.seconds = time.monotonic() - began
    return found


def attack(kinds: Sequence[Kind], seconds: float, seed: int) -> list[Found]:
    """Try all kinds within so many seconds."""
    SCRATCH.mkdir(exist_ok=True)
    scratch, until, founds = Path(tempfile.mkdtemp(prefix="attack-", dir=SCRATCH)), time.monotonic() + seconds, []
    try:
        for number, kind in enumerate(kinds):
            left = max(0.0, until - time.monotonic())
            part = left * kind.share / sum(each.share for each in kinds[number:])
            founds.append(attacked(kind, part, seed, scratch.resolve()))
            print(f"{founds[-1].seconds:6.0f} s {founds[-1].row}", file=sys.stderr)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return founds


def table(founds: Sequence[Found]) -> str:
    """All kinds as a table, and under it what failed."""
    lines = ["| what | tried | of these refused | failed before | failed now |", "|---|---|---|---|---|"]
    lines += [found.row for found in founds]
    failures = [f"- {found.kind.name}, {count}: `{text}`" for found in founds for text, count in found.said.items()]
    return "\n".join([*lines, *([""] if failures else []), *failures])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [kind.name for kind in KINDS]
    parser.add_argument("--minutes", type=float, default=30, help="in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=names, help="may be given several times")
    parser.add_argument("--page", type=Path, help="whose table is written anew")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    logging.getLogger("fedgraft").addHandler(logging.NullHandler())  # or what runs remark would hide what fails
    kinds = [kind for kind in KINDS if not given.only or kind.name in given.only]
    founds = attack(kinds, given.minutes * 60, given.seed)
    written = table(founds)
    print(written)
    if given.page:
        head, rest = given.page.read_text().split(BEGIN)
        given.page.write_text(f"{head}{BEGIN}\n\n{written}\n\n{END}{rest.split(END)[1]}")
    if any(found.failed for found in founds):
        sys.exit(1)


if __name__ == "__main__":
    main()
