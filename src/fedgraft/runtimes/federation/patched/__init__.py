"""What replaces parts of Flower's inside, or reaches into them: nothing else here knows more of Flower than its API.

Flower may change these names in any version. `tests/runtimes/federation/patched` has a test for each, which says
what is gone and who needs it; the versions that fit are in `pyproject.toml`.
"""
