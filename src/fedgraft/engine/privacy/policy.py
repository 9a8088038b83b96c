"""What an owner of data lets leave a client, whatever a recipe or a server asks for."""

import math
import re
from dataclasses import dataclass
from typing import Final

from fedgraft.contracts.capabilities import CAPABILITIES
from fedgraft.engine.purposes import PURPOSES_OF_CLIENTS
from fedgraft.errors import InputError, nearest, require, require_one_of

REQUIRED, SIGNED, NEVER = "required", "signed", "never"
_KEY: Final = re.compile(r"(sha256:[0-9a-f]{64})?")


@dataclass(frozen=True)
class Policy:
    """What may leave a client. What is not said is not limited; a site without a policy has that of its own recipe.

    Args:
        purposes: of the ledger's purposes those for which a client sends anything: "model", "probe", "halo",
            "statistics", "evaluation", "smoothing", "matching", "masking".
        capabilities: what messages may tell of a client: "features", "states", "labels", "answers", "rows", "users",
            "ids", "columns", "sizes", "class_counts", "sums", "prototypes", "losses", "scores", "update".
        min_examples: training examples, >= 0, that a client must have to take part; 0 = any number.
        least_of_class: training examples, >= 0, that each class must have which the client has any of, and each user
            where it tells of users, for counts, sums and means over these to leave; 0 = any number. What leaves in
            masked sums is not meant.
        networks: names of [model] that a client trains.
        most_parameters_per_example: of the model that travels, for each training example of the client, >= 0; 0 = no
            limit. A model much larger than its data can be made to hold them.
        most_rounds: rounds, >= 0, that a client takes part in; 0 = no limit.
        secure_sum: "required": an update leaves masked alone, so that the server learns nothing but a sum of several;
            "signed": so, and clients sign their keys, for the server may lie; "allowed"; "never".
        least_cohort: clients, >= 0, that a sum must be of which the client's update is part; 0 = any number.
        server: "sha256:" and the digest of the key of the federation's authority, by which a node knows the server; ""
            = whichever is in the node's folder.
        epsilon: of differential privacy, >= 0, over all runs of these data: updates leave with noise alone, and none
            after it is spent; 0 = no limit.
        delta: at which it is counted, in (0, 1).
        queries_per_round: different requests of one kind that a node answers in a round, >= 1; always one where updates
            are masked. The same request has the same answer, as often as it is made.
    """

    purposes: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] | None = None
    min_examples: int = 0
    least_of_class: int = 0
    networks: tuple[str, ...] | None = None
    most_parameters_per_example: float = 0.0
    most_rounds: int = 0
    secure_sum: str = "allowed"
    least_cohort: int = 0
    server: str = ""
    queries_per_round: int = 1
    epsilon: float = 0.0
    delta: float = 1e-6

    def __post_init__(self) -> None:
        for name, known in (("purposes", PURPOSES_OF_CLIENTS), ("capabilities", tuple(CAPABILITIES))):
            for word in getattr(self, name) or ():
                if word not in known:
                    raise InputError(
                        f"policy.{name} must be of {', '.join(known)}; got {word!r}.{nearest(str(word), known)}"
                    )
        require_one_of("policy.secure_sum", self.secure_sum, (REQUIRED, SIGNED, "allowed", NEVER))
        for name in ("min_examples", "least_of_class", "most_rounds", "least_cohort"):
            value = getattr(self, name)
            require(type(value) is int and value >= 0, f"policy.{name}", "a whole number >= 0", value)
        queries = self.queries_per_round
        require(type(queries) is int and queries >= 1, "policy.queries_per_round", "a whole number >= 1", queries)
        is_key = isinstance(self.server, str) and _KEY.fullmatch(self.server) is not None
        require(is_key, "policy.server", "'sha256:' and 64 hexadecimal digits, or ''", self.server)
        require(0 <= self.epsilon < math.inf, "policy.epsilon", ">= 0 and finite (0 = no limit)", self.epsilon)
        require(0 < self.delta < 1, "policy.delta", "in (0, 1)", self.delta)
        most = self.most_parameters_per_example
        require(0 <= most < math.inf, "policy.most_parameters_per_example", ">= 0 and finite (0 = no limit)", most)

    @property
    def limits(self) -> bool:
        """Whether anything is limited."""
        return self != Policy()
