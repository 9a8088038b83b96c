"""Runs that earlier versions stored can be read, and are refused with one clear line where they cannot go on.

`earlier_versions/format_N/` holds a finished run of two clients, their tables, and the answers of the version that
stored it.
"""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.predicting.predict import predict
from fedgraft.experiment.running.runner import resume
from fedgraft.reports.stored.comparison import compare

STORED = sorted((Path(__file__).parent / "earlier_versions").iterdir())


@pytest.fixture(params=STORED, ids=lambda folder: folder.name)
def stored(request, tmp_path):
    """A copy of the run's folder; its options name the tables where they are now."""
    shutil.copytree(request.param / "run", tmp_path / "run")
    options = tmp_path / "run" / "experiment.toml"
    text = options.read_text()
    for table in ("nodes.csv", "edges.csv"):
        text = text.replace(f'"{table}"', f'"{request.param / table}"')
    options.write_text(text)
    return tmp_path / "run", request.param


def test_its_model_answers_as_it_did(stored):
    run, folder = stored
    answers = predict(run, {"nodes": pd.read_csv(folder / "nodes.csv", dtype={"node": str})})
    expected = pd.read_csv(folder / "answers.csv")
    assert answers["class"].tolist() == expected["class"].tolist()
    np.testing.assert_allclose(answers["probability"], expected["probability"], rtol=1e-4)


def test_it_can_be_compared(stored):
    (row,) = compare([stored[0]])
    assert (row["run"], row["bytes"]) == ("run", 1172)


def test_it_is_not_resumed_and_nothing_changes(stored):
    run, _ = stored
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"stored by an earlier version of fedgraft .* not resumed") as error:
        resume(run)
    assert "\n" not in str(error.value)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"} == before
