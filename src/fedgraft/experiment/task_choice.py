"""Which task learns from a recipe's data: the one that they are for, or one that derives its own from these."""

from fedgraft.contracts.task_abilities import DerivingTask
from fedgraft.errors import InputError
from fedgraft.experiment import discovery
from fedgraft.experiment.recipe import section_of
from fedgraft.experiment.sections import Section


def named_task(content: Section) -> str:
    """Return the name of a recipe's task. Raises `InputError` for one that cannot use the recipe's data."""
    of_data: str = discovery.class_of("data", "data", section_of(content, "data")).task
    name = str(section_of(content, "task", default=of_data).get("name"))
    if name != of_data and not _derives(name, of_data):
        others = [each for each in discovery.names("tasks") if _derives(each, of_data)]
        also = f" {' and '.join(map(repr, others))} can, too." if others else ""
        raise InputError(f"task.name = {name!r} cannot use this data, which is for {of_data!r}.{also}")
    return name


def _derives(name: str, reads: str) -> bool:
    """Whether a task derives its shards from those of another."""
    if name not in discovery.names("tasks") and ":" not in name:
        return False
    cls = discovery.find("tasks", name)
    return issubclass(cls, DerivingTask) and cls.reads == reads
