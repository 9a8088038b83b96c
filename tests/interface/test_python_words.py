"""What errors call an argument in Python, where the command line has an option."""

import pandas as pd
import pytest

import fedgraft
from fedgraft.errors import InputError
from fedgraft.interface.python_arguments import in_python


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("--data-root DIR says where they are.", "data_root DIR says where they are."),
        ("which takes --pairs, --data.", "which takes pairs, data."),
        ("'fedgraft run RECIPE --from RUN' trains on; with --allow-changed-data", None),
        ("Train one: fedgraft run RECIPE --from RUN.", "Train one: fedgraft run RECIPE --from RUN."),
        ("a--b stays, and - so -- does this", "a--b stays, and - so -- does this"),
    ],
)
def test_options_are_arguments_but_in_whole_commands(said: str, told: str | None) -> None:
    assert in_python(said) == (told or "'fedgraft run RECIPE --from RUN' trains on; with allow_changed_data")


def test_errors_of_a_run_name_arguments(finished_run) -> None:
    run = fedgraft.open(finished_run)
    with pytest.raises(InputError, match=r"^pairs has no rows"):
        run.predict(pd.DataFrame({"user": [], "item": []}))
    with pytest.raises(InputError, match=r"^user is not for task 'rating', which takes pairs, "):
        run.predict(user="5")
