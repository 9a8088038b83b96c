"""The way out of a client: every byte that it sends passes here, and what its policy does not allow stays."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from fedgraft import wire
from fedgraft.contracts.capabilities import COUNTED
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.policy import NEVER, REQUIRED, SIGNED
from fedgraft.engine.privacy.secure_sum import MASKED, SIGNED_KEYS, Assurance
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.table import TABLE
from fedgraft.engine.purposes import HALO
from fedgraft.errors import BeyondLimitError
from fedgraft.wire import Message

_TRUSTING: Final = "privacy.name = 'central' has the server add it, which policy.epsilon = 0 trusts"
Fewest: TypeAlias = Callable[[frozenset[str]], int]
_NEEDED: Final = {REQUIRED: Assurance.MASKED, SIGNED: Assurance.SIGNED}
"""What must hide an update, by `policy.secure_sum`."""


class Rule(NamedTuple):
    """A rule of a policy beside a plan.

    Args:
        name: such as "capabilities".
        allowed: what it allows, in words.
        beyond: what of the plan it forbids, in words; "" where that is nothing.
    """

    name: str
    allowed: str
    beyond: str


class Gate:
    """Let replies of a plan out that the plan's policy allows."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._policy, self._protocol = plan, plan.policy, Protocol.of(plan)

    def passed(self, reply: Message, fewest: Fewest = lambda told: 0) -> bytes:
        """Return a reply as bytes. Raises `BeyondLimitError` for one that the policy keeps here.

        `fewest` says of how few examples counts and means are, as `CountedTask.fewest`.
        """
        if self._policy.limits and (why := self._beyond(reply) or self._of_few(reply, fewest)):
            raise BeyondLimitError(f"a message of kind {reply.kind!r} stays here: {why}")
        return wire.encode(reply, self._protocol.reply_layouts.get(reply.kind), self._protocol.report(reply.kind))

    def rules(self, kinds: Collection[str], joining: Mapping[str, str], rounds: int, network: str) -> list[Rule]:
        """Return each rule of the policy beside the plan.

        Args:
            kinds: of the replies that clients are asked for.
            joining: {what a client tells before: purpose}.
            rounds: how many are run at most.
            network: name of the model.
        """
        policy, rules = self._policy, []
        if policy.purposes is not None:
            rules.append(_of_words("purposes", policy.purposes, {*self.purposes_of(kinds), *joining.values()}))
        if policy.capabilities is not None:
            rules.append(_of_words("capabilities", policy.capabilities, {*self.told_by(kinds), *joining}))
        if policy.networks is not None:
            rules.append(_of_words("networks", policy.networks, {network} if network else set()))
        if policy.most_rounds:
            beyond = f"{rounds} rounds" if rounds > policy.most_rounds else ""
            rules.append(Rule("most_rounds", f"{policy.most_rounds}", beyond))
        if policy.least_of_class:
            counted = self.told_by(kinds) & COUNTED
            beyond = ", ".join(sorted(counted)) if counted and not self._plan.counted else ""
            rules.append(Rule("least_of_class", f"{policy.least_of_class}", beyond))
        return [*rules, *self._rules_of_sums(), *self._rules_of_noise()]

    def _rules_of_noise(self) -> list[Rule]:
        policy, privacy = self._policy, self._plan.privacy
        if not policy.epsilon:
            return []
        allowed, beyond = f"{policy.epsilon:g} at delta {policy.delta:g}", ""
        if self._plan.collection.noisy:
            from fedgraft.engine.privacy.mechanism import epsilon_at  # its mathematics takes its time to import

            epsilon = epsilon_at(privacy, 1 if self._plan.summed else self._plan.rounds, policy.delta)
            beyond = f"{epsilon:.4g}" if epsilon > policy.epsilon else ""
        elif self._plan.adds:
            beyond = "updates without noise" if self._plan.connected else "statistics without noise"
            beyond += f" ({_TRUSTING})" if self._plan.collection.claims else ""
        return [Rule("epsilon", allowed, beyond)]

    def _rules_of_sums(self) -> list[Rule]:
        policy, collection, rules = self._policy, self._plan.collection, []
        bare = self._plan.adds and not collection.assurance
        if needed := _NEEDED.get(policy.secure_sum):
            unsigned = f"{SIGNED_KEYS} = false" if collection.assurance < needed else ""
            beyond = "each client by itself" if bare else unsigned if self._plan.adds else ""
            rules.append(Rule("secure_sum", policy.secure_sum, beyond))
        if policy.secure_sum == NEVER:
            masked = f"secure_sum.name = {MASKED!r}" if collection.assurance else ""
            rules.append(Rule("secure_sum", NEVER, masked))
        if policy.least_cohort:
            least = 1 if bare else collection.least
            beyond = f"sums of {least}" if self._plan.adds and least < policy.least_cohort else ""
            rules.append(Rule("least_cohort", f"{policy.least_cohort}", beyond))
        return rules

    @cached_property
    def parameters(self) -> int:
        """Int, numbers of the model that travels."""
        return sum(math.prod(spec.shape) for spec in self._plan.model_layout)

    def told_by(self, kinds: Iterable[str]) -> set[str]:
        """Return all that replies of these kinds tell."""
        return {word for kind in kinds for word in self._protocol.tells.get(kind, ())}

    def purposes_of(self, kinds: Collection[str]) -> set[str]:
        """Return all purposes for which replies of these kinds are sent."""
        purposes = {TABLE[kind].purpose for kind in kinds} - {""}
        return purposes | ({HALO} if "train" in kinds and self._plan.halo_widths else set())

    def _beyond(self, reply: Message) -> str:
        """Why a reply stays; "" where it may leave."""
        policy, row, plan = self._policy, TABLE[reply.kind], self._plan
        if row.outside and plan.at_home:  # of data on one machine: at a site it is not served
            return ""
        if policy.capabilities is not None and (more := sorted(self.told_by([reply.kind]) - {*policy.capabilities})):
            return f"policy.capabilities has no {more[0]!r}"
        if policy.purposes is not None and (other := sorted(self.purposes_of([reply.kind]) - {*policy.purposes})):
            return f"policy.purposes has no {other[0]!r}"
        if policy.most_rounds and reply.round > policy.most_rounds and reply.kind != "error":
            return f"round {reply.round} is behind the last, policy.most_rounds = {policy.most_rounds}"
        needed, hidden = _NEEDED.get(policy.secure_sum, Assurance.NONE), plan.collection.assurance
        if needed and not hidden and (row.added or row.outside):
            return f"policy.secure_sum = {policy.secure_sum!r}, and it is not masked"
        if row.added and hidden < needed:
            return f"policy.secure_sum = {SIGNED!r}, and keys of its masks are not"
        if policy.epsilon and row.spends(plan) and not plan.collection.noisy:
            return f"policy.epsilon = {policy.epsilon:g}, and it holds no noise"
        return self._too_few(int(reply.report["examples"])) if reply.kind == "hello" else ""

    def _of_few(self, reply: Message, fewest: Fewest) -> str:
        """Why a reply stays that tells of small groups; what is scored is told of all held-out examples."""
        least = self._policy.least_of_class
        told = self._protocol.tells.get(reply.kind, frozenset()) & COUNTED
        if not least or not told or ((row := TABLE[reply.kind].reply) and row.held_out):
            return ""
        if (count := fewest(told)) >= least:
            return ""
        return f"it tells {', '.join(sorted(told))} of {count} examples, policy.least_of_class = {least}"

    def _too_few(self, examples: int) -> str:
        policy = self._policy
        if examples < policy.min_examples:
            return f"{examples} training examples are fewer than policy.min_examples = {policy.min_examples}"
        most = policy.most_parameters_per_example
        if most and self._plan.connected and self.parameters > most * examples:
            return (
                f"{self.parameters} parameters for {examples} training examples are more than "
                f"policy.most_parameters_per_example = {most:g}"
            )
        return ""


def _of_words(name: str, allowed: tuple[str, ...], used: set[str]) -> Rule:
    return Rule(name, ", ".join(allowed) or "none", ", ".join(sorted(used - {*allowed})))
