"""The page on deployment: its commands are commands with the options that they have there."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from fedgraft.interface.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
COMMANDS = [
    line.split("  #")[0].strip()
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if line.startswith("fedgraft")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_one(line):
    command, context, words = get_command(app), None, shlex.split(line)
    while hasattr(command, "commands"):
        context = command.context_class(command, info_name=words[0], parent=context)
        name, command, words = command.resolve_command(context, words[1:])
        words = [name, *words]
    command.make_context(words[0], words[1:], parent=context)
