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

from fedgraft.contracts.abilities.graph_network import GraphNetwork, GraphNetworkTask
from fedgraft.contracts.abilities.linear import Linear, LinearTask
from fedgraft.contracts.aggregation import Aggregation
from fedgraft.contracts.answers import Answers, OwnAnswers, Singles, Ways
from fedgraft.contracts.codec import Codec, RowCodec
from fedgraft.contracts.encoder import EdgeEncoder, LayeredEncoder, MetapathEncoder, NetworkEncoder
from fedgraft.contracts.exchange import Exchange, ExchangeOfEdges, ExchangeOfNodes, SilentExchange
from fedgraft.contracts.facts import TaskFacts
from fedgraft.contracts.inputs import Inputs, OwnInputs
from fedgraft.contracts.labels import LabelledTask, Labels, Unit
from fedgraft.contracts.loss import (
    ClassObjective,
    ClassShares,
    ClassWeights,
    NumberObjective,
    Objective,
    PairObjective,
    RankingObjective,
)
from fedgraft.contracts.parts import part
from fedgraft.contracts.runtime import Runtime, RuntimeOptions
from fedgraft.contracts.sampler import (
    ActiveSampler,
    GuidedSampler,
    Sampler,
)
from fedgraft.contracts.selector import PoissonSelector, ProbingSelector, Selector
from fedgraft.contracts.server_optimizer import ServerOptimizer
from fedgraft.contracts.sharing import (
    MovableSharing,
    PersonalSharing,
    RefiningSharing,
    Sharing,
    SilentSharing,
)
from fedgraft.contracts.structure import Augmentation, LocalGraph, Structure, StructurePenalty
from fedgraft.contracts.task import Chance, Loss, LossesAndBackward, Prepared, Shard, Task
from fedgraft.contracts.values import (
    SCORED_SPLITS,
    SPLITS,
    Batch,
    ClientFailed,
    Correction,
    Halo,
    HaloRows,
    HiddenPenalty,
    Indices,
    Losses,
    Observations,
    Outcome,
    Penalty,
    Probe,
    Projection,
    Questions,
    Regression,
    Selection,
    Stage,
    State,
    Sums,
    Timing,
    Trainer,
    Update,
    View,
)

__all__ = [
    "SCORED_SPLITS",
    "SPLITS",
    "ActiveSampler",
    "Aggregation",
    "Answers",
    "Augmentation",
    "Batch",
    "Chance",
    "ClassObjective",
    "ClassShares",
    "ClassWeights",
    "ClientFailed",
    "Codec",
    "Correction",
    "EdgeEncoder",
    "Exchange",
    "ExchangeOfEdges",
    "ExchangeOfNodes",
    "GraphNetwork",
    "GraphNetworkTask",
    "GuidedSampler",
    "Halo",
    "HaloRows",
    "HiddenPenalty",
    "Indices",
    "Inputs",
    "LabelledTask",
    "Labels",
    "LayeredEncoder",
    "Linear",
    "LinearTask",
    "LocalGraph",
    "Loss",
    "Losses",
    "LossesAndBackward",
    "MetapathEncoder",
    "MovableSharing",
    "NetworkEncoder",
    "NumberObjective",
    "Objective",
    "Observations",
    "Outcome",
    "OwnAnswers",
    "OwnInputs",
    "PairObjective",
    "Penalty",
    "PersonalSharing",
    "PoissonSelector",
    "Prepared",
    "Probe",
    "ProbingSelector",
    "Projection",
    "Questions",
    "RankingObjective",
    "RefiningSharing",
    "Regression",
    "RowCodec",
    "Runtime",
    "RuntimeOptions",
    "Sampler",
    "Selection",
    "Selector",
    "ServerOptimizer",
    "Shard",
    "Sharing",
    "SilentExchange",
    "SilentSharing",
    "Singles",
    "Stage",
    "State",
    "Structure",
    "StructurePenalty",
    "Sums",
    "Task",
    "TaskFacts",
    "Timing",
    "Trainer",
    "Unit",
    "Update",
    "View",
    "Ways",
    "part",
]
