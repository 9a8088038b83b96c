"""End a run on the command line: print what came out, or how to go on."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from signal import SIGINT
from typing import Any

from rich.console import Console

from fedgraft.errors import Interrupted, printable
from fedgraft.experiment.claims import sentence
from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.interface.commands.options import print_json, say
from fedgraft.reports.pages.outcome import outcome
from fedgraft.reports.stored.comparison import clients_text, failures_text, shown_score
from fedgraft.reports.stored.seed_groups import group_rows, grouped, open_named, render
from fedgraft.reports.stored.stored_runs import AMONG_FEW, METRIC_NAMES, baselines_of
from fedgraft.runtimes.workers import signals


@contextmanager
def interruptible(hint: Callable[[], str]) -> Iterator[None]:
    """Say how to go on after an interruption: outside of all progress, whose last picture it would be part of."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt, signals.Terminated) as error:
        number = getattr(error, "number", SIGINT)
        say(f"{signals.text_of(number)}. {hint()}")
        raise Interrupted("interrupted", number) from error


def resumable(folder: Path) -> AbstractContextManager[None]:
    """Enter what may be interrupted: one run."""
    go_on = f"Continue with: fedgraft resume {shlex.quote(str(folder))}"
    return interruptible(lambda: go_on if (folder / "experiment.toml").exists() else "Nothing was stored.")


def startable(folder: Path) -> AbstractContextManager[None]:
    """Enter what may be interrupted: several runs, which the same command takes up."""
    return interruptible(lambda: f"The same command with --out {shlex.quote(str(folder))} goes on from there.")


def show_seeds(summaries: Sequence[Mapping[str, Any]], folder: Path, as_json: bool) -> None:
    """Print what came out of runs with several seeds, for people or as JSON."""
    rows = group_rows(grouped(open_named([Path(summary["folder"]) for summary in summaries])))
    if as_json:
        print_json({"folder": str(folder), "runs": list(summaries), "groups": rows})
        return
    Console().print(render(rows))


def show_summary(summary: Mapping[str, Any], folder: Path, as_json: bool) -> None:
    """Print what came out, for people or as JSON."""
    if as_json:
        print_json({**summary, "folder": str(folder)})
        return
    print("\n".join(map(printable, result_lines(summary, folder))))


def result_lines(summary: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the lines: scores, what smoothing brought, bytes, baselines, failures, what came out, digest."""
    metric, total, raw = summary["metric"], summary["bytes"], summary["raw_data_bytes"]
    return [
        f"{summary['recipe']} on {summary['dataset']}: {summary['rounds']} rounds ({summary['stopped_by']})",
        f"  {metric}: validation {shown_score(summary['validation'])}, test {shown_score(summary['test'])}",
        f"  {metric} on test at best validation: {shown_score(summary['test_at_best_validation'])}",
        *_measures(summary),
        *_after_steps(summary),
        *_decision(summary),
        *_smoothed(summary),
        *([f"  privacy: {sentence(claim)}"] if (claim := summary.get("privacy")) else []),
        f"  bytes: {human_bytes(total['total'])} ({human_bytes(total['down'])} down, {human_bytes(total['up'])} up)",
        *([f"  sending all data once would take {human_bytes(raw)}"] if raw is not None else []),
        *(f"  baseline {name}: {shown_score(score)}" for name, score in baselines_of(summary).items()),
        *([f"  clients: {clients_text(summary)}"] if summary["scored"] else []),
        *([f"  {failed}"] if (failed := failures_text(summary["failures"])) else []),
        f"  {outcome([summary], [summary['recipe']])}",
        *(f"  note: {remark}" for remark in summary["remarks"]),
        f"  digest {summary['digest']}, in {folder}",
    ]


def _measures(summary: Mapping[str, Any]) -> list[str]:
    """Return the line of further measures of the model that was best on validation, if there are any.

    Of two classes those among the likeliest few are told where the rarer one is judged.
    """
    measures = {name: value for name, value in summary["measures"].get("test", {}).items() if name != summary["metric"]}
    if summary.get("threshold", {"threshold": 0.0})["threshold"] is None:
        measures = {name: value for name, value in measures.items() if not name.startswith(AMONG_FEW)}
    texts = [f"{METRIC_NAMES.get(name, name)} {shown_score(value)}" for name, value in measures.items()]
    return [f"  on test at best validation, too: {', '.join(texts)}"] if texts else []


def _after_steps(summary: Mapping[str, Any]) -> list[str]:
    """Return the line about clients' models after local steps, where these are scored."""
    if (told := summary.get("after_local_steps")) is None:
        return []
    if told["round"] is None:
        return ["  after local steps: no score, as clients' steps have failed in each round"]
    scores = f"validation {shown_score(told['validation'])}, test {shown_score(told['test'])}"
    return [f"  after local steps, at their best validation (round {told['round']}): {scores}"]


def _decision(summary: Mapping[str, Any]) -> list[str]:
    """Return the line that says which class is the rarer, and from which probability on it is answered."""
    if several := summary.get("thresholds", {}):
        return [f"  the rarer class of each label: {'; '.join(_rarer(name, told) for name, told in several.items())}"]
    if (decision := summary.get("threshold")) is None:
        return []
    least, line = decision["threshold"], f"  the rarer class is {decision['class']!r}"
    line += f", {decision['share']:.2%} of validation"
    if least is None:
        return [line]
    return [f"{line}; it is answered from a probability of {least:.4f} on, which has the largest F1 there"]


def _rarer(label: str, decision: Mapping[str, Any]) -> str:
    """Return what is said of one of several labels."""
    least = decision["threshold"]
    said = f"of {label!r} {decision['class']!r}, {decision['share']:.2%} of validation"
    return said if least is None else f"{said}, from {least:.4f} on"


def _smoothed(summary: Mapping[str, Any]) -> list[str]:
    """Return the line about answers corrected after training, if they were."""
    if (smoothing := summary.get("smoothing")) is None:
        return []
    if failed := len(smoothing["failed"]):
        return [f"  answers are smoothed, but not at {failed} clients, which failed: scores are those of before"]
    told = f"chosen on validation: {smoothing['way']}"
    return [f"  before answers were corrected: {shown_score(smoothing['before']['test'])} ({told})"]
