"""Predictions, the command line and the Python interface know no task and no data set: what they need is found."""

import ast
from pathlib import Path

import pytest

import fedgraft
from fedgraft.contracts.abilities.predicting import PredictingTask
from fedgraft.contracts.data import ClientTables
from fedgraft.contracts.parts import answering
from fedgraft.experiment.recipes import discovery
from fedgraft.interface.cli import COMMANDS

SOURCE = Path(fedgraft.__file__).parent
MODULES = (
    "experiment/predicting/predict.py",
    *(
        f"interface/{name}.py"
        for name in (
            "cli",
            "api",
            "finished",
            "python_arguments",
            "json_tables",
            "serve",
        )
    ),
    *(f"interface/commands/{name}.py" for name in ("predict", "serve", "run", "resume", "compare", "report", "study")),
)
PLAIN = {"data", "table"}
"""Words of every task: the section [data] of recipes, a table of whatever kind."""


def names_of_tasks_data_sets_and_tables() -> set[str]:
    sets = {*discovery.names("data")} - {*discovery.presets("data")}
    tasks = [answering(discovery.find("tasks", name), PredictingTask) for name in discovery.names("tasks")]
    classes = [cls for cls in (discovery.find("data", name) for name in sets) if issubclass(cls, ClientTables)]
    tables = {table for cls in classes for table in cls.own_tables} | {table for task in tasks for table in task.asks}
    return ({*discovery.names("tasks")} | sets | tables) - PLAIN


@pytest.mark.parametrize("module", MODULES)
def test_it_imports_no_domain_and_no_method(module: str) -> None:
    for node in ast.walk(ast.parse((SOURCE / module).read_text())):
        imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            imported = [f"{node.module}.{alias.name}" for alias in node.names]
        assert not [name for name in imported if name.startswith(("fedgraft.domains", "fedgraft.methods"))]


@pytest.mark.parametrize("module", MODULES)
def test_it_names_no_task_data_set_or_table(module: str) -> None:
    tree = ast.parse((SOURCE / module).read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    named = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    if module == "interface/cli.py":
        texts -= {*COMMANDS}  # "node" is a site's command, and a task
    assert not (texts | named) & names_of_tasks_data_sets_and_tables()
