"""Which laws a class from outside breaks."""

import pytest


def broken(check, cls, **options):
    """Names of the laws that a class breaks."""
    with pytest.raises(AssertionError) as caught:
        check(cls, **options)
    lines = [line for line in str(caught.value).splitlines() if " breaks the law " in line]
    assert all(line.startswith(f"{cls.__name__} breaks the law '") for line in lines)
    return [line.split("'")[1] for line in lines]
