"""Small runs of methods that share tables of users and items, and a trainer that ends where it is told to."""

import numpy as np

from fedgraft import wire
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.experiment import job as jobs
from fedgraft.experiment.job import Job
from fedgraft.testing.runs import Played

ITEMS = "embeddings.items"
SHOPS = {"users": 60, "items": 120, "categories": 4, "links": 200, "count": 1200, "clients": 3, "noise": 0.3}


class SocialTrainer:
    """A trainer whose training ends in these arrays."""

    learning_rate = 0.01

    def __init__(self, trained):
        self.trained = trained

    def load(self, arrays):
        self.loaded = arrays

    def run(self, **hooks):
        pass

    def difference(self, start):
        return {name: self.trained[name] - start[name] for name in start}


def social_run(recipe: str, rounds: int = 6, **options) -> Job:
    """A recipe on a few shops; options of the sharing method, or "section.key"."""
    changes = {key if "." in key else f"sharing.{key}": value for key, value in options.items()}
    shops = {f"data.{name}": value for name, value in SHOPS.items()}
    return jobs.load(recipe, {**shops, "rounds": rounds, "baselines": [], "training.epochs": 3, **changes})


def uploads(experiment: Job, played: Played, round: int) -> list[dict[str, np.ndarray]]:
    """What each client sent in a round, as the server decodes it."""
    plan = experiment.fitted(experiment.data.load(experiment.seed)).plan
    found = []
    for each in played.received:
        if each.kind == "train" and each.round == round:
            arrays = wire.decode(
                each.message, Protocol.of(plan).reply_layouts, {"train": Protocol.of(plan).report("train")}
            ).arrays
            found.append(plan.uplink.decode(arrays, plan.upload_layout))
    return found
