import pytest

from fedgraft import errors
from fedgraft.errors import AllClientsFailedError, FedgraftError, InputError, require, require_one_of, unknown


def test_every_error_is_one_of_ours():
    own = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, Exception)]
    assert len(own) == 6
    assert all(issubclass(cls, FedgraftError) for cls in own)


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
