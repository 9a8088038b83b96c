"""Which parameters of a test are in the quick tests, and which are left to the long ones."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def long_but_for(quick: Collection[Any], every: Iterable[Any]) -> list[Any]:
    """Return parameters of a test, in order; those that are not `quick` are run by `make test-all` alone."""
    return [each if each in quick else pytest.param(each, marks=pytest.mark.slow) for each in every]
