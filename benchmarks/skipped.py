"""What a figure raises that cannot be measured here; imports nothing, so that `bench` may have it first of all."""


class Skipped(Exception):
    """The text says why."""
