"""What `fedgraft show` says without torch is what it says with it, of every name."""

import json
import subprocess
import sys
from itertools import chain

import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe_files import recipes
from fedgraft.experiment.recipes.sections import METHODS, SETTINGS, VALUES
from fedgraft.interface import explained

NAMES = sorted({*recipes(), *METHODS, *SETTINGS, *VALUES, *chain(*map(discovery.names, discovery.FAMILIES))})
UNKNOWN = ["fedacss", "Oort", "trainin", "seeds", "zzz", ""]
SCRIPT = """
import json, sys
from fedgraft.interface.commands.options import load
from fedgraft.interface.commands.show import stand_ins

def said(name):
    try:
        return [[str(page), page.as_json()] for page in load("fedgraft.interface.explained").pages(name)]
    except Exception as error:
        return f"{type(error).__name__}: {error}"

with stand_ins():
    print(json.dumps({name: said(name) for name in sys.argv[1:]}))
"""
AFTERWARDS = """
import fedgraft.methods
from fedgraft.interface.commands.show import stand_ins
with stand_ins():
    from abc import ABC
    from torch import nn
    import torch.nn.functional as F
    from fedgraft.methods import models
    from fedgraft.methods.models import gcn
    class Both(nn.Module, ABC): ...
    assert issubclass(Both, nn.Module) and nn.Linear(2, 3).weight | None and F.relu(F.softmax)
    before = {"models": models, "gcn": gcn}
import torch
from fedgraft.methods import models
from fedgraft.methods.models import gcn
assert torch.ones(2).sum() == 2
assert models is not before["models"] and gcn is not before["gcn"]
"""


def child(script: str, *arguments: str) -> str:
    """What a process without torch prints."""
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def refused(name: str) -> str:
    with pytest.raises(InputError) as error:
        explained.pages(name)
    return f"InputError: {error.value}"


def test_of_every_name_the_same_is_said_without_the_libraries() -> None:
    with_them = {name: [[str(page), page.as_json()] for page in explained.pages(name)] for name in NAMES}
    expected = json.dumps(with_them | {name: refused(name) for name in UNKNOWN})
    assert json.loads(child(SCRIPT, *NAMES, *UNKNOWN)) == json.loads(expected)


@pytest.mark.slow
def test_what_found_stand_ins_is_imported_anew_with_the_libraries() -> None:
    child(AFTERWARDS)
