"""Which laws a class from outside breaks."""

import sys
from contextlib import contextmanager

import pytest
from hypothesis import Phase, settings

settings.register_profile("as found", phases=[Phase.explicit, Phase.generate])


@contextmanager
def as_found():
    """Take an example that breaks a law as it is found: to look for the simplest takes seconds, and nobody reads it."""
    before = settings.get_current_profile_name()
    settings.load_profile("as found")
    yield
    settings.load_profile(before)


def broken(check, cls, **options):
    """Names of the laws that a class breaks."""
    with as_found(), pytest.raises(AssertionError) as caught:
        check(cls, **options)
    return _named(cls, caught)


def breaks(check, cls, law, **options):
    """Whether a class breaks this law of those that `check` holds it to; no other is tried."""
    (held,) = [each for each in sys.modules[check.__module__].laws(cls, **options) if each.name == law]
    with as_found(), pytest.raises(AssertionError) as caught:
        held()
    return _named(cls, caught) == [law]


def _named(cls, caught):
    lines = [line for line in str(caught.value).splitlines() if " breaks the law " in line]
    assert all(line.startswith(f"{cls.__name__} breaks the law '") for line in lines)
    return [line.split("'")[1] for line in lines]
