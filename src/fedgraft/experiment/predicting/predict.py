"""Use a trained model: answers to queries from a run's folder and the clients' own data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch.nn import Module

from fedgraft.contracts import Task
from fedgraft.contracts.abilities.predicting import SHARE, Everybody, PredictingTask
from fedgraft.contracts.data import Data
from fedgraft.errors import InputError, nearest, require
from fedgraft.experiment.predicting.site_run import SiteRun, open_run
from fedgraft.experiment.storage.finished_run import FinishedRun, client_model
from fedgraft.experiment.storage.folder_check import SUMMARY
from fedgraft.tables.table_files import Given, TextForm, table_of
from fedgraft.wire.layouts import Array


def predict(
    run: Path | FinishedRun,
    tables: Mapping[str, Given | None],
    client: str | None = None,
    *own: Given | None,
    count: int | None = None,
    probabilities: bool = False,
    threshold: float | None = None,
    **own_by_name: Given | None,
) -> pd.DataFrame:
    """Answer questions with the run's model, the one that was best on validation.

    Args:
        run: its folder, or what was loaded from there, once for many questions; one thread at a time.
        tables: {name: file of a table or DataFrame}: questions, by names of the task's `asks`, and perhaps one
            client's own tables, by names of the data set's `own_tables`.
        client: who answers all of them, by name; None leaves it to the task and to a column "client".
        own: one client's own tables, in order, for a model that is used where the run's data are not; all that they
            hold is known. Without them the run's data are loaded again.
        count: answers to each question, for a task that gives several; None leaves it to the task and to its column.
        probabilities: whether a column for each class, "probability_CLASS", tells its probability; nan where a client
            does not know the class.
        threshold: the probability from which on the rarer of two classes is answered, in [0, 1]; None = as the run has
            chosen on validation, or the likeliest class where it has not.
        own_by_name: the same as `own`, the first, and `own_X`, "X" or "FIRST-X".

    Returns:
        The rows of the first of the task's tables (of what it makes of the others where that is not given), once for
        each answer, the client that answered, and the task's answers.
    """
    run = run if isinstance(run, FinishedRun) else open_run(run)
    name, task, least = run.experiment.task_name, run.task, thresholds_of(run, threshold)

    def answer(module: Module, shard: Any, remembered: Mapping[str, Any], questions: Any) -> dict[str, Array]:
        columns = decided(task.predict(module, shard, remembered, questions), least)
        if probabilities and not any(column.startswith(SHARE) for column in columns):
            raise InputError(f"Task {name!r} tells no probabilities of classes; leave --probabilities out.")
        return columns if probabilities else {key: each for key, each in columns.items() if not key.startswith(SHARE)}

    return _answered(run, tables, client, own, own_by_name, count, answer)


def embeddings(
    run: Path | FinishedRun,
    tables: Mapping[str, Given | None] | None = None,
    client: str | None = None,
    *own: Given | None,
    **own_by_name: Given | None,
) -> pd.DataFrame:
    """Return the last hidden layer of what is asked, or of all clients' test examples; arguments as of `predict`.

    Without tables it is that of the test examples of all clients, or of `client`.

    Returns:
        The rows that were asked, if any, the client, what names an example, such as "node", and embedding_0 ...
    """
    run = run if isinstance(run, FinishedRun) else open_run(run)
    task = run.task
    if not task.embeds:
        raise InputError(f"Task {run.experiment.task_name!r} has no embeddings to tell.")

    def answer(module: Module, shard: Any, remembered: Mapping[str, Any], questions: Any) -> dict[str, Array]:
        named, hidden = task.embed(module, shard, remembered, questions)
        return {**named, **{f"embedding_{number}": hidden[:, number] for number in range(hidden.shape[1])}}

    if tables:
        return _answered(run, tables, client, own, own_by_name, None, answer)
    parts = []
    for number in range(len(run.names)) if client is None else [run.number(client)]:
        columns = answer(run.answering_model(number), run.shards[number], run.memory(number), None)
        parts.append(pd.DataFrame({**columns, "client": run.names[number]}))
    every = pd.concat(parts, ignore_index=True)
    return every[["client", *(name for name in every if name != "client")]]


def _answered(
    run: FinishedRun,
    tables: Mapping[str, Given | None],
    client: str | None,
    own: Sequence[Given | None],
    own_by_name: Mapping[str, Given | None],
    count: int | None,
    answer: Callable[[Module, Any, Mapping[str, Any], Any], dict[str, Array]],
) -> pd.DataFrame:
    """Return the rows that are asked with what `answer` says of (model, shard, memory, questions)."""
    tables = run.moved(tables) if isinstance(run, SiteRun) else tables
    task, data, reader, name = run.task, run.experiment.data, run.own_data, run.experiment.task_name
    own_tables = reader.own_tables if reader else ()
    every = {**tables, **_own_given(own_tables, own, own_by_name, name)}
    by_name = {each: table for each, table in every.items() if table is not None}
    _check_names(by_name, task.asks, own_tables, name)
    read = {each: _read(task, each, by_name[each], data.asked_form) for each in task.asks if each in by_name}
    its_own = {each: by_name[each] for each in own_tables if each in by_name}
    question_tables = _counted(name, task, _asked(data, run.plan.task, read, its_own, client), count)
    everybody = None
    if reader and its_own:
        shard = reader.client_shard(run.plan.task, its_own)
        shards: Sequence[Any] = [run.plan.task.derived(shard, None)]
        names, new_client = ["own"], run.newcomers_model(f"--{own_tables[0]}")
    else:
        shards, names, new_client = run.shards, run.names, None
        if isinstance(run, SiteRun):
            question_tables |= run.elsewhere
        else:
            everybody = Everybody(shards, run.memory, run.answering_model)
    answers: list[pd.DataFrame] = []
    for number, questions in task.questions(shards, question_tables).items():
        remembered = run.memory(number) if new_client is None else run.newcomer_memory
        module = (
            run.answering_model(number) if new_client is None else client_model(run.plan, shards[0], {}, new_client)
        )
        asked = questions.asked
        if everybody:
            asked = task.informed(asked, everybody)
        columns = answer(module, shards[number], remembered, asked)
        answered = {"client": np.full(len(questions.rows), names[number], dtype=object)}
        answers.append(pd.DataFrame({**answered, **columns}, index=questions.rows))
    told, asked_first = pd.concat(answers).sort_index(kind="stable"), question_tables.get(task.asks[0])
    return _beside(read.get(task.asks[0], asked_first), asked_first, told)


def _own_given(
    names: Sequence[str], listed: Sequence[Given | None], named: Mapping[str, Given | None], task: str
) -> dict[str, Given]:
    """Return {name: table} of one client's own tables; of `names`, all that there can be, the first is required.

    They are listed in this order, or named as keywords call them: `own`, the first; `own_X`, "X" or "FIRST-X".
    """
    further = {f"own_{name.removeprefix(f'{names[0]}-').replace('-', '_')}": name for name in names[1:]}
    keywords = {**dict(zip(["own"], names, strict=False)), **further}
    if len(listed) > max(len(keywords), 1):
        raise InputError(f"{len(listed)} tables of one client's own are given; task {task!r} takes {len(keywords)}.")
    every = {**dict(zip(keywords or ["own"], listed, strict=False)), **named}
    by_keyword = {keyword: table for keyword, table in every.items() if table is not None}
    for keyword in by_keyword:
        if keyword not in keywords:
            takes = ", ".join(keywords) or "no table of one client's own"
            raise InputError(f"{keyword} is not for task {task!r}, which takes {takes}.")
        if "own" not in by_keyword:
            raise InputError(f"{keyword} needs own, the table that it belongs to.")
    return {keywords[keyword]: table for keyword, table in by_keyword.items()}


def _check_names(names: Iterable[str], asks: Sequence[str], own_tables: Sequence[str], task: str) -> None:
    """Raise `InputError` for tables that the run does not know, and where one is missing."""
    known = [*asks, *own_tables]
    for name in names:
        if name not in known:
            hint = nearest(name, [*known, "client"])
            raise InputError(f"--{name} is not for task {task!r}, which takes --{', --'.join(known)}.{hint}")
    if not {*asks} & {*names}:
        raise InputError(f"Nothing is asked: give --{', --'.join(asks)}.")
    for name in own_tables:
        if name in names and own_tables[0] not in names:
            raise InputError(f"--{name} belongs to --{own_tables[0]}, one client's own data; give both.")


def _asked(
    data: Data[Any],
    task: Task[Any, Any],
    read: Mapping[str, pd.DataFrame],
    own: Mapping[str, Given],
    client: str | None,
) -> dict[str, pd.DataFrame]:
    """Return the tables of questions as the task reads them, each row of the first for `client` unless that is None."""
    tables = data.questions(task, read, own)
    first = next(iter(read))
    if not len(tables[first]):
        raise InputError(f"--{first} has no rows; at least one is needed.")
    if client is not None:
        tables[first] = tables[first].assign(client=client)
    return tables


def _read(task: PredictingTask[Any, Any], name: str, table: Given, form: TextForm) -> pd.DataFrame:
    """Return a table of questions; of the first, a text that names no file lists what the task asks about: "7,12"."""
    text = "" if isinstance(table, pd.DataFrame) else str(table)
    if name == task.asks[0] and text and not Path(text).suffix and not Path(text).exists():
        with suppress(InputError):  # of a task that knows tables only
            return task.tables_of([part.strip() for part in text.split(",")])[name]
    return table_of(table, f"--{name}", form)


def _counted(
    name: str, task: PredictingTask[Any, Any], tables: dict[str, pd.DataFrame], count: int | None
) -> dict[str, pd.DataFrame]:
    """Return the tables with the number of answers that each question gets."""
    if count is None:
        return tables
    if not task.count_column:
        raise InputError(
            f"A number of answers (-k {count}) is not for task {name!r}, which gives one to each question."
        )
    first = task.asks[0]
    return {**tables, first: tables[first].assign(**{task.count_column: count})}


def _beside(rows: pd.DataFrame | None, asked: pd.DataFrame | None, answers: pd.DataFrame) -> pd.DataFrame:
    """Return answers beside the rows that were asked, if there are any; a column of both is that of the answers.

    What the task was `asked`, and its answers repeat, stays under the rows' own name of it.
    """
    if rows is None or asked is None:
        return answers
    repeated = [name for name in answers if name in asked and name != "client"]
    elsewhere = [name for name in repeated if name not in rows or not rows[name].equals(asked[name])]
    answers = answers.drop(columns=elsewhere)
    kept = rows.drop(columns=[name for name in answers if name in rows]).iloc[answers.index]
    return pd.concat([kept.reset_index(drop=True), answers.reset_index(drop=True)], axis=1)


@dataclass(frozen=True)
class Threshold:
    """From which probability on the rarer of two classes is answered.

    Args:
        label: name of the label where an example has several; "" where it has one.
        positive_class: name of the rarer class.
        other: of the other one.
        least: the probability.
    """

    label: str
    positive_class: str
    other: str
    least: float


def threshold_of(run: FinishedRun) -> tuple[str, float] | None:
    """Return the rarer class and the threshold of a run whose examples have one label; None where there is none."""
    found = [each for each in thresholds_of(run, None) if not each.label]
    return (found[0].positive_class, found[0].least) if found else None


def thresholds_of(run: FinishedRun, wanted: float | None) -> list[Threshold]:
    """Return the threshold of each label, the one that is wanted or those of the run; none where there are none.

    Raises `InputError` where one is wanted of a run that does not tell two classes with one of them the rarer.
    """
    if wanted is not None:
        require(0 <= wanted <= 1, "--threshold", "a probability, in [0, 1]", wanted)
    known = _decisions(run)
    if wanted is not None and not known:
        raise InputError(
            "--threshold is for runs that tell two classes of a user's own tables, or that evaluation.metric = 'f1' "
            "judges; this run has none: leave it out."
        )
    told = {label: each["threshold"] if wanted is None else wanted for label, each in known.items()}
    return [
        Threshold(label, each["class"], each["other"], told[label])
        for label, each in known.items()
        if told[label] is not None
    ]


def decided(columns: Mapping[str, Array], thresholds: Iterable[Threshold]) -> dict[str, Array]:
    """Return columns of answers, classes being those which thresholds tell; those of probabilities stay."""
    answers = dict(columns)
    for each in thresholds:
        behind = f"_{each.label}" if each.label else ""
        positive_class, other = f"{SHARE}{each.positive_class}{behind}", f"{SHARE}{each.other}{behind}"
        if positive_class not in columns or other not in columns:
            continue
        found = np.asarray(columns[positive_class]) >= each.least
        names = np.array([other.removeprefix(SHARE).removesuffix(behind), each.positive_class], dtype=object)
        answers[f"class{behind}"] = names[found.astype(np.int64)]
        answers[f"probability{behind}"] = np.where(found, columns[positive_class], columns[other])
    return answers


def _decisions(run: FinishedRun) -> dict[str, Any]:
    """{label: what the run's summary says of it}; {} for one of other labels."""
    if not (run.run_folder.folder / SUMMARY).is_file():
        return {}
    summary = run.run_folder.summary()
    return {"": summary["threshold"]} if summary.get("threshold") else dict(summary.get("thresholds", {}))
