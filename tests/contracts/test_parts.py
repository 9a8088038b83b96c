"""Parts of tasks: found by what they can do, made once, and sent to workers with their task."""

import pickle
from abc import ABC, abstractmethod

import pytest

from fedgraft.contracts.abilities.tasks import HaloTask, PooledTask
from fedgraft.contracts.parts import answering, has, part, parts_of
from fedgraft.experiment.recipes import discovery
from helpers.toy import Line


class Weighing(ABC):
    @abstractmethod
    def weight(self):
        """An ability that only some tasks have."""


class Light(Weighing):
    def weight(self):
        return 1


class Heavy(Light):
    def weight(self):
        return 2


class Weighed(Line):
    @part
    def weighing(self) -> Light:
        return Light()


class Reweighed(Weighed):
    @part
    def weighing(self) -> Heavy:
        return Heavy()


def test_what_answers_an_ability_is_the_task_or_a_part_that_is_made_once():
    task = Weighed()
    assert task.ability(PooledTask) is task
    assert task.ability(Weighing) is task.ability(Light) is task.weighing
    assert task.ability(Weighing).weight() == 1
    assert task.ability(HaloTask) is Line().ability(Weighing) is None


def test_a_class_says_which_abilities_there_are_and_the_last_definition_counts():
    assert (answering(Weighed, Weighing), answering(Weighed, PooledTask)) == (Light, Weighed)
    assert not has(Line, Weighing)
    assert parts_of(Reweighed) == {"weighing": Heavy}
    assert Reweighed().ability(Light).weight() == 2


@pytest.mark.parametrize("name", ["node", "node_regression", "typed_node", "graph", "edge", "rating"])
def test_a_task_travels_with_its_parts(name):
    cls = discovery.find("tasks", name)
    model = {"typed_node": "han", "rating": "gat"}.get(name, "gcn")
    task = cls(encoder=discovery.build("models", "model", {"name": model}))
    made = [getattr(task, each) for each in parts_of(cls)]
    again = pickle.loads(pickle.dumps((task, made)))
    assert made
    assert again[0] == task
