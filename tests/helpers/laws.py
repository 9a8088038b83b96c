"""Laws as parameters of tests: each is reported by its name and that of the method."""

import pytest


def held(cases):
    """Parameters of a test: {name of a method: its laws}."""
    return [pytest.param(law, id=f"{name}-{law}") for name, laws in cases.items() for law in laws]
