"""How the server collects the updates of a round: each by itself, or their sum alone. A plan chooses once.

Both ends have a part for each answer: the client's is a `Contribution`, the server's a `Collecting`, and the layouts of
messages follow from `protocol.forms`. So nobody else asks whether updates are added up.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from fedgraft.contracts import Codec
from fedgraft.contracts.abilities.summed_statistics import SummedTask
from fedgraft.contracts.abilities.summing import SumCoding
from fedgraft.engine.privacy.options import Privacy
from fedgraft.engine.privacy.secure_sum import MOST_BITS, Assurance, SecureSum
from fedgraft.errors import require
from fedgraft.wire.layouts import Layout


class Collection(ABC):
    """How updates and scores of clients reach the server."""

    single: ClassVar[bool] = True
    """Whether the server sees what single clients answer."""
    noisy: ClassVar[bool] = False
    """Whether what leaves a client holds noise."""
    claims: ClassVar[bool] = False
    """Whether a claim of privacy is made."""
    assurance: Assurance = Assurance.NONE
    """What hides a single update."""
    least: int = 1
    """Clients of which a result is."""
    least_by: str = "secure_sum.least_cohort"
    """Name of the option that says so."""

    @property
    def hides(self) -> bool:
        """Whether anything of a client is hidden: then it answers once, and its memory is encrypted."""
        return self.noisy or self.assurance > Assurance.NONE

    def check_clients(self, clients: int) -> None:
        """Raise `InputError` for so few clients in all that there is no result."""
        require(clients >= self.least, self.least_by, f"at most {clients}, the number of clients", self.least)

    @abstractmethod
    def coding(self, uplink: Codec[Any], layout: Layout) -> SumCoding | None:
        """Return how updates are coded whose codes are added up; None where each is sent by itself."""

    @abstractmethod
    def coding_of_statistics(self, task: SummedTask[Any]) -> SumCoding:
        """Return how statistics are coded to be added up, once before training."""

    @abstractmethod
    def staying(self, clients: int) -> float:
        """Return the share of its neighbours, in a sum of so many clients, that must stay with each to the end."""

    @property
    @abstractmethod
    def most_weight(self) -> int:
        """The largest weight of one client in a sum: of examples, how many it has."""

    @abstractmethod
    def most_bits(self, coding: SumCoding, clients: int) -> int:
        """Return the most bits of a code in a sum over so many clients."""


class EachUpdate(Collection):
    """Each update is sent by itself, and so are scores; nothing is added up, and a recipe that adds is refused."""

    def coding(self, uplink: Codec[Any], layout: Layout) -> SumCoding | None:
        """Return None."""
        return None

    def coding_of_statistics(self, task: SummedTask[Any]) -> SumCoding:
        """Return nothing: there is no sum."""
        raise AssertionError("it was checked where it was built")

    def staying(self, clients: int) -> float:
        """Return that all must stay."""
        return 1.0

    @property
    def most_weight(self) -> int:
        """One."""
        return 1

    def most_bits(self, coding: SumCoding, clients: int) -> int:
        """Return the bits of a sum in which all weigh the same."""
        return coding.sum_bits(clients)


class TrustedServer(EachUpdate):
    """Each update is sent by itself to a server that adds noise to what it makes of them."""

    claims: ClassVar[bool] = True


class Sums(Collection):
    """Updates are added up, masked or in the clear, and the server reads their sum alone.

    Args:
        options: how.
    """

    single: ClassVar[bool] = False

    def __init__(self, options: SecureSum) -> None:
        self._options = options
        self.assurance, self.least = options.assurance, options.least_cohort

    def coding(self, uplink: Codec[Any], layout: Layout) -> SumCoding | None:
        """Return the codec's."""
        found = uplink.sum_coding(layout)
        assert found is not None, "it was checked where it was built"
        return found

    def coding_of_statistics(self, task: SummedTask[Any]) -> SumCoding:
        """Return whole steps."""
        from fedgraft.engine.privacy.plain_sums import PlainSums  # its mathematics takes its time to import

        return PlainSums(task.summed_layout)

    def staying(self, clients: int) -> float:
        """Return `secure_sum.threshold`."""
        return self._options.threshold

    @property
    def most_weight(self) -> int:
        """As `secure_sum.most_weight`."""
        return self._options.most_weight

    def most_bits(self, coding: SumCoding, clients: int) -> int:
        """Return the bits of a sum to which all add with the largest weight."""
        return coding.sum_bits(clients * self._options.most_weight)


class NoisySums(Sums):
    """Sums with noise, of which each client adds a share; whoever is left has at least `privacy.shares` of it.

    Args:
        options: how updates are added up.
        privacy: what is hidden.
        rounds: of the run, which noise must last for.
    """

    noisy: ClassVar[bool] = True
    claims: ClassVar[bool] = True

    def __init__(self, options: SecureSum, privacy: Privacy, rounds: int) -> None:
        super().__init__(options)
        self._privacy, self._rounds = privacy, rounds
        self.least = max(options.least_cohort, privacy.shares)
        if privacy.shares > options.least_cohort:
            self.least_by = "privacy.shares"

    def coding(self, uplink: Codec[Any], layout: Layout) -> SumCoding | None:
        """Return one with noise for all rounds; codecs have no part in it."""
        from fedgraft.engine.privacy.private_sums import private_sums  # its mathematics takes its time to import

        return private_sums(self._privacy, self._rounds, layout)

    def coding_of_statistics(self, task: SummedTask[Any]) -> SumCoding:
        """Return one with noise for one sum."""
        from fedgraft.engine.privacy.private_sums import private_sums

        return private_sums(self._privacy, 1, task.summed_layout, task.reach)

    def staying(self, clients: int) -> float:
        """Return what leaves `privacy.shares` of noise beside a neighbour that knows its own."""
        if clients < 2:
            return super().staying(clients)
        return min(1.0, max(super().staying(clients), (self._privacy.shares - 1) / (clients - 1)))

    @property
    def most_weight(self) -> int:
        """One of a client; of examples, as many as codes can count."""
        return 2**MOST_BITS if self._privacy.of_examples else super().most_weight

    def most_bits(self, coding: SumCoding, clients: int) -> int:
        """Return the most that there are where weights are numbers of examples."""
        return MOST_BITS if self._privacy.of_examples else super().most_bits(coding, clients)


def collection_of(options: SecureSum, privacy: Privacy, rounds: int) -> Collection:
    """Return how a plan with these options collects updates. Clients add noise to sums alone."""
    if not options.active:
        return TrustedServer() if privacy.central else EachUpdate()
    return NoisySums(options, privacy, rounds) if privacy.active else Sums(options)
