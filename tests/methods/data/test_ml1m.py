import pytest

from fedgraft.errors import InputError
from fedgraft.methods.data.ml1m import ML1M


def test_missing_files_name_the_address() -> None:
    address = r"https://grouplens\.org/datasets/movielens/1m/"
    with pytest.raises(InputError, match=rf"ML1M: no file nowhere/ratings\.dat\. .* get them at {address}"):
        ML1M("nowhere").load(0)


def test_errors_name_the_option() -> None:
    with pytest.raises(InputError, match=r"ML1M.ubi must be in \(0, 1\].*; got 2"):
        ML1M("nowhere", ubi=2)
