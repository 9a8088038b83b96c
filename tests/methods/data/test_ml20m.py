import pytest

from fedgraft.errors import InputError
from fedgraft.methods.data.ml20m import ML20M


def test_missing_files_name_the_address() -> None:
    address = r"https://grouplens\.org/datasets/movielens/20m/"
    with pytest.raises(InputError, match=rf"ML20M: no file nowhere/ratings\.csv\. .* get them at {address}"):
        ML20M("nowhere").load(0)


def test_errors_name_the_option() -> None:
    with pytest.raises(InputError, match=r"ML20M.ubi must be in \(0, 1\].*; got 2"):
        ML20M("nowhere", ubi=2)
