"""Laws as parameters of tests: each is reported by its name and that of the method."""

import pytest


def held(cases, slow=()):
    """Parameters of a test: {name of a method: its laws}; those whose names are `slow` take seconds."""
    ids = [(f"{name}-{law}", law) for name, laws in cases.items() for law in laws]
    return [pytest.param(law, id=id, marks=[pytest.mark.slow] if id in slow else []) for id, law in ids]
