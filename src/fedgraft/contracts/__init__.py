"""The seven questions that a federated run answers, a contract and a file each, and the values that they exchange.

    who trains?     Selector          what is sent?   Codec         to solve what?   Task
    on what?        Sampler           shared how?     Sharing       where?           Runtime
                                      what counts?    Aggregation

One more may be asked, and mostly is not: how far does the model go? (`ServerOptimizer`)

A method is a frozen dataclass of hyper-parameters. What it remembers is an explicit state that goes in and comes out.
What it draws comes from the generator `g` that it is handed. So checkpoints, resume and equal runs on every runtime
cost a method nothing. Contracts know nothing of each other: recipes join papers.

A contract holds what every method of its family must answer, and what has a default that suits the others. What changes
the course of a run is an ability: an abstract class beside the contract, which a method inherits where it needs it. The
engine's plan checks once who has which. What a method must know of the task comes as `TaskFacts`.
"""

from fedgraft.contracts.abilities import Classified as Classified
from fedgraft.contracts.abilities import GraphNetwork as GraphNetwork
from fedgraft.contracts.abilities import GraphNetworkTask as GraphNetworkTask
from fedgraft.contracts.abilities import Linear as Linear
from fedgraft.contracts.abilities import LinearTask as LinearTask
from fedgraft.contracts.abilities import LocalGraphTask as LocalGraphTask
from fedgraft.contracts.abilities import ObservedTask as ObservedTask
from fedgraft.contracts.abilities import PlainModel as PlainModel
from fedgraft.contracts.abilities import PooledTask as PooledTask
from fedgraft.contracts.abilities import PredictingTask as PredictingTask
from fedgraft.contracts.aggregation import Aggregation as Aggregation
from fedgraft.contracts.answers import Answers as Answers
from fedgraft.contracts.answers import OwnAnswers as OwnAnswers
from fedgraft.contracts.answers import Singles as Singles
from fedgraft.contracts.answers import Ways as Ways
from fedgraft.contracts.codec import Codec as Codec
from fedgraft.contracts.codec import RowCodec as RowCodec
from fedgraft.contracts.data import ANSWER as ANSWER
from fedgraft.contracts.data import Purpose as Purpose
from fedgraft.contracts.encoder import EdgeEncoder as EdgeEncoder
from fedgraft.contracts.encoder import LayeredEncoder as LayeredEncoder
from fedgraft.contracts.encoder import MetapathEncoder as MetapathEncoder
from fedgraft.contracts.encoder import NetworkEncoder as NetworkEncoder
from fedgraft.contracts.exchange import Exchange as Exchange
from fedgraft.contracts.exchange import ExchangeOfEdges as ExchangeOfEdges
from fedgraft.contracts.exchange import ExchangeOfNodes as ExchangeOfNodes
from fedgraft.contracts.exchange import SilentExchange as SilentExchange
from fedgraft.contracts.facts import TaskFacts as TaskFacts
from fedgraft.contracts.inputs import Inputs as Inputs
from fedgraft.contracts.inputs import OwnInputs as OwnInputs
from fedgraft.contracts.labels import Floats as Floats
from fedgraft.contracts.labels import LabelledTask as LabelledTask
from fedgraft.contracts.labels import Labels as Labels
from fedgraft.contracts.labels import Unit as Unit
from fedgraft.contracts.loss import ClassObjective as ClassObjective
from fedgraft.contracts.loss import ClassShares as ClassShares
from fedgraft.contracts.loss import ClassWeights as ClassWeights
from fedgraft.contracts.loss import NumberObjective as NumberObjective
from fedgraft.contracts.loss import Objective as Objective
from fedgraft.contracts.loss import PairObjective as PairObjective
from fedgraft.contracts.loss import RankingObjective as RankingObjective
from fedgraft.contracts.parts import part as part
from fedgraft.contracts.ranges import InnerFraction as InnerFraction
from fedgraft.contracts.ranges import NonNegativeFloat as NonNegativeFloat
from fedgraft.contracts.ranges import NonNegativeInt as NonNegativeInt
from fedgraft.contracts.ranges import PositiveFloat as PositiveFloat
from fedgraft.contracts.ranges import PositiveInt as PositiveInt
from fedgraft.contracts.ranges import Proportion as Proportion
from fedgraft.contracts.runtime import Runtime as Runtime
from fedgraft.contracts.runtime import RuntimeOptions as RuntimeOptions
from fedgraft.contracts.sampler import ActiveSampler as ActiveSampler
from fedgraft.contracts.sampler import GuidedSampler as GuidedSampler
from fedgraft.contracts.sampler import Sampler as Sampler
from fedgraft.contracts.selector import ProbingSelector as ProbingSelector
from fedgraft.contracts.selector import Selector as Selector
from fedgraft.contracts.server_optimizer import ServerOptimizer as ServerOptimizer
from fedgraft.contracts.sharing import MovableSharing as MovableSharing
from fedgraft.contracts.sharing import PersonalSharing as PersonalSharing
from fedgraft.contracts.sharing import Sharing as Sharing
from fedgraft.contracts.sharing import SilentSharing as SilentSharing
from fedgraft.contracts.structure import Augmentation as Augmentation
from fedgraft.contracts.structure import LocalGraph as LocalGraph
from fedgraft.contracts.structure import Structure as Structure
from fedgraft.contracts.structure import StructurePenalty as StructurePenalty
from fedgraft.contracts.task import Chance as Chance
from fedgraft.contracts.task import Loss as Loss
from fedgraft.contracts.task import LossesAndBackward as LossesAndBackward
from fedgraft.contracts.task import Prepared as Prepared
from fedgraft.contracts.task import Shard as Shard
from fedgraft.contracts.task import Task as Task
from fedgraft.contracts.values import SCORED_SPLITS as SCORED_SPLITS
from fedgraft.contracts.values import SPLITS as SPLITS
from fedgraft.contracts.values import Batch as Batch
from fedgraft.contracts.values import ClientFailed as ClientFailed
from fedgraft.contracts.values import Correction as Correction
from fedgraft.contracts.values import Halo as Halo
from fedgraft.contracts.values import HaloRows as HaloRows
from fedgraft.contracts.values import HiddenPenalty as HiddenPenalty
from fedgraft.contracts.values import Indices as Indices
from fedgraft.contracts.values import Losses as Losses
from fedgraft.contracts.values import Observations as Observations
from fedgraft.contracts.values import Outcome as Outcome
from fedgraft.contracts.values import Penalty as Penalty
from fedgraft.contracts.values import Probe as Probe
from fedgraft.contracts.values import Projection as Projection
from fedgraft.contracts.values import Questions as Questions
from fedgraft.contracts.values import Regression as Regression
from fedgraft.contracts.values import Selection as Selection
from fedgraft.contracts.values import Stage as Stage
from fedgraft.contracts.values import State as State
from fedgraft.contracts.values import Sums as Sums
from fedgraft.contracts.values import Timing as Timing
from fedgraft.contracts.values import Trainer as Trainer
from fedgraft.contracts.values import Update as Update
from fedgraft.contracts.values import View as View
