"""Ids that several clients name: the ability of data sets that match them by tokens."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from fedgraft.contracts.data import ClientTables, Purpose
from fedgraft.contracts.task import Shard
from fedgraft.tables.table_files import Given
from fedgraft.wire.layouts import Arrays

CLIENTS, ELSEWHERE = "clients", "elsewhere"
"""Tables that a site adds to questions: "name" of all clients in the order of their numbers; and of each node of others
to which its edges were joined "owner", the number of its client, "place" among its nodes there, and "node", its id."""
KNOWN_ELSEWHERE: Final = ("owner", "place", "node")
"""Columns of the latter."""


class MatchedData(ClientTables[Shard]):
    """Ability: join edges between clients' own tables, of which each knows the id of the other end alone.

    Or number things that several clients have, such as users. A site claims its edges, or things, by tokens
    (`fedgraft.wire.tokens`); with the addresses, or numbers, that the server has made of all claims, which
    `Purpose.neighbours` brings, its shard has them. Where all data are here the same is done in `load`.
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
    def is_numbered(self) -> bool:
        """Whether things are claimed, and get numbers; by default edges are, and get addresses."""
        return False

    @property
    @abstractmethod
    def matching(self) -> Mapping[int, tuple[int, int]]:
        """What it takes where the data of all are here, {client: (bytes down, bytes up)}, packed; before `load`."""

    @abstractmethod
    def claims_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose, secret: bytes) -> Arrays:
        """Return what a site claims, arrays of `tokens.CLAIMS`, or of `tokens.NAMES`.

        Arguments as of `client_shard`, and the secret.
        """

    def elsewhere_at(self, task: Any, tables: Mapping[str, Given], purpose: Purpose) -> pd.DataFrame:
        """Return the nodes of others to which a site's edges were joined, a table of `ELSEWHERE`; by default none.

        Arguments as of `client_shard`; the purpose knows the addresses.
        """
        return pd.DataFrame(columns=list(KNOWN_ELSEWHERE))
