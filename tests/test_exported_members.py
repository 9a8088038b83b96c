"""What `fedgraft` says it offers is what it offers, and nothing heavy is imported before it is used."""

import ast
import subprocess
import sys
from pathlib import Path

import fedgraft

SOURCE = Path(fedgraft.__file__)


def fresh(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_all_is_what_can_be_imported():
    namespace = {}
    exec("from fedgraft import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(fedgraft.__all__)
    assert sorted(fedgraft.__all__) == fedgraft.__all__
    assert {name for name in dir(fedgraft) if not name.startswith("__")} == {*fedgraft.__all__} - {"__version__"}


def test_all_is_what_type_checkers_see():
    checked = next(node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If))
    names = {alias.name for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names | {"__version__"} == set(fedgraft.__all__)


def test_no_module_takes_the_name_of_a_function():
    modules = {path.stem for path in SOURCE.parent.iterdir()}
    assert not modules & set(fedgraft.__all__)


def test_nothing_else():
    assert not hasattr(fedgraft, "runn")


def test_importing_fedgraft_imports_nothing_heavy():
    heavy = ["torch", "pandas", "plotly", "numpy", "rich"]
    assert fresh(f"import fedgraft, sys; print(*[name for name in {heavy} if name in sys.modules])") == []


def test_a_worker_imports_neither_figures_nor_the_command_line():
    heavy = ["plotly", "rich", "typer"]
    code = f"import fedgraft.runtimes.workers.worker, sys; print(*[name for name in {heavy} if name in sys.modules])"
    assert fresh(code) == []
