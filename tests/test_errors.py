import pickle

import numpy as np
import pytest
import torch

from fedgraft import errors
from fedgraft.errors import (
    AllClientsFailedError,
    FedgraftError,
    InputError,
    memory_shortage,
    require,
    require_one_of,
    unknown,
)


def test_every_error_is_one_of_ours():
    own = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, Exception)]
    assert len(own) == 12
    assert all(issubclass(cls, FedgraftError) for cls in own)


def test_of_many_names_an_error_lists_the_nearest():
    said = str(unknown("user", "u1000", [f"u{number}" for number in range(100, 1100)]))
    assert said.endswith(", ... (1,000 in all).")
    assert " Known: u1000, u" in said
    assert said.count(", u") == 4


def test_an_unknown_name_comes_with_the_nearest_right_one_and_all():
    error = unknown("selector", "ort", ["random", "oort", "all"])
    assert isinstance(error, InputError)
    assert str(error) == "No selector named 'ort'. Did you mean 'oort'? Known: all, oort, random."
    assert str(unknown("selector", "zzz", [])) == "No selector named 'zzz'. Known: none."


def test_the_nearest_name_is_found_in_upper_and_in_lower_case():
    assert "Did you mean 'fedais'?" in str(unknown("recipe", "FedAIS", ["fedacs", "fedais"]))
    assert "Did you mean 'Fold'?" in str(unknown("column", "fold", ["Fold", "node"]))
    with pytest.raises(InputError, match=r"got 'TEST'\. Did you mean 'test'\?$"):
        require_one_of("FedACS.score_split", "TEST", ("validation", "test"))


def test_a_known_name_is_listed_once():
    assert str(unknown("argument", "x", ["data", "out", "data"])) == "No argument named 'x'. Known: data, out."


def test_a_requirement_names_parameter_allowed_and_value():
    require(True, "Oort.epsilon", "in [0, 1]", 0.5)
    with pytest.raises(InputError, match=r"^Oort\.epsilon must be in \[0, 1\]; got 1\.5\.$"):
        require(False, "Oort.epsilon", "in [0, 1]", 1.5)


def test_a_choice_names_the_nearest():
    require_one_of("training.optimizer", "sgd", ("sgd", "adam"))
    with pytest.raises(InputError) as caught:
        require_one_of("training.optimizer", "adm", ("sgd", "adam"))
    assert str(caught.value) == "training.optimizer must be one of 'sgd', 'adam'; got 'adm'. Did you mean 'adam'?"
    with pytest.raises(InputError, match=r"got 3\.$"):
        require_one_of("training.optimizer", 3, ("sgd", "adam"))


def test_all_clients_failed_carries_every_reason_in_order():
    error = AllClientsFailedError(4, {2: "no reply", 0: "broken"})
    assert error.reasons == {2: "no reply", 0: "broken"}
    assert str(error) == "Round 4: all 2 selected clients failed.\n  client 0: broken\n  client 2: no reply"
    again = pickle.loads(pickle.dumps(error))  # as a study's process hands it on
    assert (str(again), again.reasons, again.round) == (str(error), error.reasons, 4)


def raised(do):
    try:
        do()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def numpy_s():
    np.empty(1 << 60, np.uint8)


def torch_s():
    torch.empty(1 << 60, dtype=torch.uint8)


def system_s():
    raise OSError(12, "Cannot allocate memory")


def loader_s():
    raise ImportError("libx.so: failed to map segment from shared object")


def device_s():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


def endless_s():
    np.zeros(2**62)


def beyond_s():
    np.arange(10**30)


def torch_s_own_limit_s():
    torch.zeros(2**62, 4)


def hidden_s():
    try:
        numpy_s()
    except MemoryError:
        raise ValueError("the data cannot be read") from None


@pytest.mark.parametrize(
    "do", [numpy_s, torch_s, system_s, loader_s, device_s, endless_s, beyond_s, torch_s_own_limit_s, hidden_s]
)
def test_too_little_memory_is_recognised_whoever_tells(do):
    said = memory_shortage(raised(do))
    assert said.startswith("out of memory (")
    assert "\n" not in said
    assert len(said) < 250


@pytest.mark.parametrize(
    "error",
    [
        ValueError("out of memory"),
        RuntimeError("shapes do not fit"),
        OSError(28, "No space left on device"),
        ImportError("No module named 'x'"),
    ],
)
def test_other_errors_are_not_taken_for_it(error):
    assert memory_shortage(error) == ""


def test_an_error_of_memory_without_a_word_is_one_too():
    assert memory_shortage(MemoryError()) == "out of memory"
