"""A sharing method: clients send half of their step."""

from dataclasses import dataclass

from fedgraft.methods.one_model import OneModel


@dataclass(frozen=True)
class Halves(OneModel):
    """The mean of half steps."""

    def local_update(self, trainer, received, memory):
        """Train, and halve the difference."""
        trainer.load(received)
        trainer.run()
        return {name: part / 2 for name, part in trainer.difference(received).items()}, memory
