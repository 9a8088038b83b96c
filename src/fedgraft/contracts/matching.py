"""Edges between clients whose own tables know one end each: the ability of data sets that match ids by tokens."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from fedgraft.contracts.data import Purpose, SiteData
from fedgraft.contracts.table_files import Given
from fedgraft.contracts.task import Shard
from fedgraft.wire.layouts import Arrays


class MatchedData(SiteData[Shard]):
    """Ability: join edges between clients' own tables, of which each knows the id of the other end alone.

    A site claims its edges by tokens (`fedgraft.wire.tokens`); with the addresses that the server has made of all
    claims, which `Purpose.neighbours` brings, its shard has them. Where all data are here the same is done in `load`.
    """

    @property
    @abstractmethod
    def matches(self) -> bool:
        """Whether options ask for it."""

    @property
    def is_private(self) -> bool:
        """Whether tokens are masked before they leave (`fedgraft.wire.masking`); by default they are sent."""
        return False

    @property
    @abstractmethod
    def matching(self) -> Mapping[int, tuple[int, int]]:
        """What it takes where the data of all are here, {client: (bytes down, bytes up)}, packed; before `load`."""

    @abstractmethod
    def claims_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose, secret: bytes) -> Arrays:
        """Return what a site claims, arrays of `tokens.CLAIMS`; arguments as of `client_shard`, and the secret."""
