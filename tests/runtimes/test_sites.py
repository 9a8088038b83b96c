"""Sites: options of a federation's runtime, which a federation alone starts."""

import pytest

from fedgraft.errors import InputError
from fedgraft.runtimes.sites import Sites


def test_options_are_checked():
    with pytest.raises(InputError, match=r"runtime\.join_seconds must be >= 0"):
        Sites(join_seconds=-1)


def test_without_a_federation_there_are_no_sites():
    with pytest.raises(InputError, match=r"is for 'fedgraft run RECIPE --on DIR', at the nodes of a federation"):
        Sites().start(None, [])


def test_fingerprints_are_the_names_that_nodes_have_told():
    assert Sites().fingerprints({0: b"name", ~0: b"a set-up message"}) == {0: b"name"}
