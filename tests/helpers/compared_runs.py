"""Runs side by side, from their folders."""

from fedgraft.reports.stored.comparison import compared
from fedgraft.reports.stored.seed_groups import open_named


def compare(folders, target=None, against=None):
    """One row a run, as `compared` has them."""
    return compared(open_named(folders), target, against)
