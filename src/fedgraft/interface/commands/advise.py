"""Say whether to federate your data, with which recipe, and what each further megabyte buys."""

from pathlib import Path
from typing import Annotated

import typer

from fedgraft.errors import InputError, printable, require
from fedgraft.experiment.recipes.recipe import parse_override
from fedgraft.interface.commands.ends import interruptible
from fedgraft.interface.commands.options import AsJson, Quiet, print_json
from fedgraft.interface.commands.options import say as tell
from fedgraft.reports.advising.advise import MOST_WORK
from fedgraft.reports.advising.advise import advise as find_advice
from fedgraft.reports.advising.page import as_json as object_of
from fedgraft.reports.advising.page import padded
from fedgraft.reports.advising.questions import Question


def advise(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A data set ('fedgraft list data'), or a CSV or Parquet file.")
    ],
    rest: Annotated[
        list[str] | None,
        typer.Argument(metavar="[BUDGET] [SECTION.KEY=VALUE]", help="Bytes that a run may send, 8MB; overrides."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Paired seeds, at least 2; as many as the work allows.")] = 3,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Finished cells and the advice. Default: advice/DATA.")
    ] = None,
    work: Annotated[
        float,
        typer.Option(metavar="TFLOP", help="Operations of clients in all; a run that would take more is left out."),
    ] = MOST_WORK,
    minutes: Annotated[
        float | None, typer.Option(help="What is not done in so many minutes is left out. Default: no limit.")
    ] = None,
    share_labels: Annotated[
        bool, typer.Option("--share-labels", help="Try recipes in which labels of training nodes leave their clients.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say whether to federate your data, with which recipe, and what each further megabyte buys.

    Runs a few recipes within the budget, and what each client and one place could do without a federation. Started
    again, it runs only what is missing. Example: fedgraft advise ratings.csv 8MB data.clients=5 --out advice/mine.
    """
    budget, changes = _budget(rest or [])
    require(work > 0, "--work", "above 0 TFLOP", work)
    require(minutes is None or minutes > 0, "--minutes", "above 0", minutes)
    question = Question.of(data, budget, dict(map(parse_override, changes)), seeds, share_labels)
    folder = out or Path("advice") / (Path(data).stem.replace(":", ".") or "data")

    def say(line: str) -> None:
        if not quiet:
            tell(line)

    with interruptible(lambda: "What is finished is kept: the same command goes on from there."):
        advice = find_advice(question, folder, say, work, minutes)
    say(
        f"{advice.ran} of {advice.ran + len(advice.missing)} missing cells were run; "
        f"{', '.join(map(str, advice.written))}"
    )
    if as_json:
        print_json(object_of(advice.verdict, advice.missing))
        return
    table = "\n".join(map(printable, padded(advice.verdict).splitlines()))
    print("\n\n".join([table, *map(printable, [*advice.notes, advice.verdict.sentence])]))


def _budget(rest: list[str]) -> tuple[str, list[str]]:
    """Return the budget, "" for none, and the overrides."""
    plain = [each for each in rest if "=" not in each]
    if len(plain) > 1:
        raise InputError(f"One BUDGET such as 8MB can be given, and overrides section.key=value; got {plain!r}.")
    return (plain[0] if plain else ""), [each for each in rest if "=" in each]
