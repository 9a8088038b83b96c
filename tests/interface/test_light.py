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


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list"], ["list", "data", "--json"]])
def test_torch_is_not_imported(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.stderr == "[]\n"
    assert done.stdout
