"""A checkpoint with a server optimiser's state: one that no step can be taken with is one clear error."""

import shutil

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.running.runner import resume
from helpers.stored_runs import QUICK, repack, stopped, unpacked
from helpers.toy_runs import toy

WRONG = {"weight": np.zeros(9, np.float32), "bias": np.zeros(1, np.float32)}


@pytest.fixture(scope="module")
def optimised(tmp_path_factory):
    """A run with a server optimiser, after two of its rounds; not to be changed."""
    experiment = toy(server_optimizer="fedadam", **QUICK)
    return stopped(tmp_path_factory.mktemp("optimised") / "run", experiment)


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ({"first": {}}, r"state\.server_optimizer\.0 has no second"),
        ({"first": 1, "second": {}}, r"state\.server_optimizer\.0\.first is 1, not a table"),
        ({"first": {}, "second": {}}, r"state\.server_optimizer\.0: "),
        (
            {
                part: {"weight": np.zeros(9, np.float32), "bias": np.zeros(1, np.float32)}
                for part in ("first", "second")
            },
            r"state\.server_optimizer\.0: ",
        ),
    ],
)
def test_a_state_that_no_step_can_be_taken_with_is_refused(optimised, tmp_path, kept, message):
    run = shutil.copytree(optimised, tmp_path / "run")
    tree = unpacked(run)
    tree["state"]["server_optimizer"] = {"0": kept}
    repack(run, tree)
    with pytest.raises(InputError, match=rf"state\.bin is damaged: {message}"):
        resume(run)


def test_the_state_of_a_server_optimiser_that_the_recipe_does_not_have_is_refused(optimised, tmp_path):
    run = stopped(tmp_path / "run", toy(**QUICK))
    tree = unpacked(run)
    tree["state"]["server_optimizer"] = unpacked(optimised)["state"]["server_optimizer"]
    repack(run, tree)
    with pytest.raises(InputError, match=r"state\.server_optimizer is of another recipe"):
        resume(run)
