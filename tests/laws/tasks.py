"""Laws of tasks and of all abilities that only some have."""

from fedgraft.testing import tasks
from fedgraft.testing.laws import check
from laws import (
    graph_abilities,
    halo_tasks,
    published_statistics,
    row_encryption_tasks,
    smoothing_tasks,
    task_abilities,
)

FAMILIES = (
    tasks,
    task_abilities,
    published_statistics,
    graph_abilities,
    halo_tasks,
    row_encryption_tasks,
    smoothing_tasks,
)


def check_task(cls, data, /, *, poolable=None, **options):
    """Hold a task to all laws; arguments as those of `fedgraft.testing.check_task`."""
    check(laws(cls, data, poolable=poolable, **options))


def laws(cls, data, /, *, poolable=None, **options):
    """The laws of a task, to be called one by one; arguments as `check_task`."""
    case = tasks.case_of(cls, data, poolable, options)
    return [law for family in FAMILIES for law in family.LAWS.held(cls, case)]
