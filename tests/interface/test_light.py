"""What needs no torch does not load it."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
sys.argv[0] = "fedgraft"
from fedgraft.__main__ import main
try:
    main()
finally:
    print([name for name in ("torch", "pandas", "pydantic") if name in sys.modules], file=sys.stderr)
"""


def loaded(*arguments: str) -> str:
    """What a command has loaded at its end, as the script prints it."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.stdout
    return done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list"], ["list", "data", "--json"]])
def test_torch_is_not_imported(arguments: list[str]) -> None:
    assert loaded(*arguments) == "[]\n"


@pytest.mark.parametrize("arguments", [["oort"], ["graft_node"], ["nodes", "--json"], ["fedacs", "--toml"]])
def test_nor_to_show_a_method_or_a_recipe(arguments: list[str]) -> None:
    assert loaded("show", *arguments) == "['pydantic']\n"
