"""What only some methods of a family answer: an abstract class each, beside the contract of the family.

Those of tasks that most tasks have, and what they answer with, are names of this package.
"""

from fedgraft.contracts.abilities.naming import NamingTask
from fedgraft.contracts.abilities.plain import PlainModel, PlainTask
from fedgraft.contracts.abilities.pooling import PooledTask
from fedgraft.contracts.abilities.predicting import Classified, PredictingTask
from fedgraft.contracts.abilities.row_encryption import EncryptedRowsTask
from fedgraft.contracts.abilities.tasks import DerivingTask, HaloTask, ObservedTask, PublishingTask

__all__ = [
    "Classified",
    "DerivingTask",
    "EncryptedRowsTask",
    "HaloTask",
    "NamingTask",
    "ObservedTask",
    "PlainModel",
    "PlainTask",
    "PooledTask",
    "PredictingTask",
    "PublishingTask",
]
