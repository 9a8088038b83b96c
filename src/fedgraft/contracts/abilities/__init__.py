"""What only some methods of a family answer: an abstract class each, beside the contract of the family.

Those of tasks that most tasks have, and what they answer with, are names of this package.
"""

from fedgraft.contracts.abilities.graphs import GraphNetwork as GraphNetwork
from fedgraft.contracts.abilities.graphs import GraphNetworkTask as GraphNetworkTask
from fedgraft.contracts.abilities.graphs import LocalGraphTask as LocalGraphTask
from fedgraft.contracts.abilities.linear import Linear as Linear
from fedgraft.contracts.abilities.linear import LinearTask as LinearTask
from fedgraft.contracts.abilities.plain import PlainModel as PlainModel
from fedgraft.contracts.abilities.plain import PlainTask as PlainTask
from fedgraft.contracts.abilities.predicting import Classified as Classified
from fedgraft.contracts.abilities.predicting import PredictingTask as PredictingTask
from fedgraft.contracts.abilities.row_encryption import EncryptedRowsTask as EncryptedRowsTask
from fedgraft.contracts.abilities.tasks import HaloTask as HaloTask
from fedgraft.contracts.abilities.tasks import ObservedTask as ObservedTask
from fedgraft.contracts.abilities.tasks import PooledTask as PooledTask
from fedgraft.contracts.abilities.tasks import PublishingTask as PublishingTask
