"""Fixtures for every test."""

import os
from pathlib import Path

import pytest
import torch
from jaxtyping import install_import_hook

torch.set_num_threads(1)

# From here on, shapes in signatures are checked at every call; outside tests they cost nothing.
install_import_hook(["fedgraft.models"], "beartype.beartype")


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data sets, or a skip that says how to provide it."""
    root = Path(os.environ.get("FEDGRAFT_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"no real data at {root}; set FEDGRAFT_DATA to the folder that holds ciao/, epinions/ ...")
    return root
