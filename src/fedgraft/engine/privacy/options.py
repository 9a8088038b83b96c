"""Differential privacy of training: what is asked for."""

import math
from dataclasses import dataclass
from typing import Final

from fedgraft.errors import require, require_one_of

CLIENT: Final = "client"
"""The unit whose part is all that a client's training changes in the model."""
DISTRIBUTED, CENTRAL = "distributed", "central"
"""Who adds noise: each client its share before anybody sees a sum, or a server that is trusted."""


@dataclass(frozen=True)
class Privacy:
    """Every sum of updates holds noise, such that it hardly tells whether one unit took part in training.

    Each unit's part in a sum is shortened to a length, and each client adds its share of the noise before it adds its
    numbers to those of others. So [secure_sum] must be on. Neighbouring data differ in one unit whose part is zero
    ("zero-out"); how many units a client has is no secret.

    With `name = "central"` each update is sent by itself, and the server clips it, adds up and adds the noise. Against
    other clients and whoever gets the model it needs far less of it, and the server must be trusted.

    Source: Abadi et al., "Deep Learning with Differential Privacy", CCS 2016 (gradients of examples, clipped); McMahan
        et al., "Learning Differentially Private Recurrent Language Models", ICLR 2018 (updates of clients, drawn by a
        coin each; a fixed denominator); Andrew et al., "Differentially Private Learning with Adaptive Clipping",
        NeurIPS 2021 (`target_quantile`); Kairouz, Liu, Steinke, "The Distributed Discrete Gaussian Mechanism", ICML
        2021 (shares of discrete noise); Sajadmanesh and Gatica-Perez, "Locally Private Graph Neural Networks", CCS 2021
        (answers, randomised before they are averaged over neighbours).
    Differs: only central noise counts on that clients are drawn in secret, by the selector "poisson"; else no claim is
        smaller for it: every unit counts as a part of every round. Central noise is discrete, too.

    Args:
        unit: "client", or an example as the task names it, such as "node" or "graph"; "" = no noise. With examples a
            round is one step of gradient descent: a client sends the sum of its examples' gradients.
        epsilon: of all rounds together, > 0.
        delta: in (0, 1), below 1 / units.
        clip: most length of one unit's part, > 0: of a gradient, or of a client's update.
        shares: clients, >= 0, whose noise a sum has at least; a round with fewer has no sum. The noise of one less is
            enough, since a client knows its own. The others may be missing, or work together. 1: each client's own
            noise is enough, so that even the server may see what it sends. 0 = nine of ten of those that train in a
            round, at most all but one.
        answers: how much of `epsilon`, >= 0 and below it, is spent on answers that are smoothed after training: each
            node tells its class by randomised response, once. 0 = such answers are told as they are.
        name: who adds the noise: "distributed", each client a share of it; or "central", the server, for clients as
            units.
        target_quantile: of "central": the share of updates, in (0, 1), that are to be shorter than the clipped length,
            which follows them from `clip` on; 0.5 as published. 0 = the length stays.
    """

    unit: str = ""
    epsilon: float = 0.0
    delta: float = 0.0
    clip: float = 1.0
    shares: int = 0
    answers: float = 0.0
    name: str = DISTRIBUTED
    target_quantile: float = 0.0

    def __post_init__(self) -> None:
        require_one_of("privacy.name", self.name, (DISTRIBUTED, CENTRAL))
        require(isinstance(self.unit, str), "privacy.unit", "a word", self.unit)
        require(0 < self.clip < math.inf, "privacy.clip", "> 0 and finite", self.clip)
        require(type(self.shares) is int and self.shares >= 0, "privacy.shares", "a whole number >= 0", self.shares)
        if self.name == CENTRAL:
            self._check_central()
        else:
            quantile = self.target_quantile
            require(quantile == 0, "privacy.target_quantile", f"0 unless privacy.name = {CENTRAL!r}", quantile)
        if self.claims:
            require(0 < self.epsilon < math.inf, "privacy.epsilon", "> 0 and finite", self.epsilon)
            require(0 < self.delta < 1, "privacy.delta", "in (0, 1), below 1 / units", self.delta)
            below = f">= 0 and below privacy.epsilon = {self.epsilon:g}, of which it is a part"
            require(0 <= self.answers < self.epsilon, "privacy.answers", below, self.answers)
        else:
            for name in ("epsilon", "delta", "answers"):
                value = getattr(self, name)
                require(value == 0, f"privacy.{name}", "0 unless privacy.unit says whose privacy it is", value)

    def _check_central(self) -> None:
        """Raise `InputError` for what a server that adds the noise has no use for."""
        said = f"where privacy.name = {CENTRAL!r}"
        require(self.unit == CLIENT, "privacy.unit", f"{CLIENT!r} {said}: the server clips whole updates", self.unit)
        require(self.shares == 0, "privacy.shares", f"0 {said}: the server adds all of the noise", self.shares)
        require(self.answers == 0, "privacy.answers", f"0 {said}, which hides no single answers", self.answers)
        quantile = self.target_quantile
        require(0 <= quantile < 1, "privacy.target_quantile", "in (0, 1), or 0 for a fixed length", quantile)

    @property
    def claims(self) -> bool:
        """True where the run has a claim of privacy, whoever adds the noise."""
        return self.unit != ""

    @property
    def active(self) -> bool:
        """True where clients add noise, so that every sum of their updates holds it."""
        return self.claims and self.name == DISTRIBUTED

    @property
    def central(self) -> bool:
        """True where the server adds the noise."""
        return self.claims and self.name == CENTRAL

    @property
    def of_examples(self) -> bool:
        """True where it is single examples that are hidden."""
        return self.active and self.unit != CLIENT

    def check_units(self, units: int) -> None:
        """Raise `InputError` for a delta that pays for telling one of so many units as it is."""
        if self.claims and units:
            allowed = f"below 1 / {units}, the number of units: it would pay for telling one of them as it is"
            require(self.delta * units < 1, "privacy.delta", allowed, self.delta)
