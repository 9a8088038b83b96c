"""One client's own ratings, for a model that is used where the run's data are not."""

from collections.abc import Mapping
from typing import Any, ClassVar

from fedgraft.contracts.data import ANSWER, OwnShardData, Purpose
from fedgraft.contracts.table_files import Given
from fedgraft.domains.ratings.dealing import known_shard
from fedgraft.domains.ratings.shards import RatingShard
from fedgraft.domains.ratings.tables import Format, read_own_ratings

RATINGS, TRUST = OWN_TABLES = ("data", "trust")
"""Names of the tables: one row per rating; one row per trust link."""
STARS = Format("data", low=1.0, high=5.0, unknown_trust="drop")
"""The usual columns, and the scale of every data set but the user's own tables."""


class OwnRatings(OwnShardData[RatingShard]):
    """Ability of data sets of 1 to 5 stars: read one client's own ratings, from the usual columns."""

    own_tables: ClassVar[tuple[str, ...]] = OWN_TABLES

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> RatingShard:
        """Read one client's ratings."""
        return own_ratings(STARS, tables)


def own_ratings(form: Format, tables: Mapping[str, Given]) -> RatingShard:
    """Read one client's ratings and the trust links between its users, all known; notes go to the log.

    Args:
        form: names of columns and the scale.
        tables: those of `OWN_TABLES`; categories and the second table may be missing.
    """
    ratings = read_own_ratings(form, tables[RATINGS], tables.get(TRUST), (f"--{RATINGS}", f"--{TRUST}"))
    return known_shard(ratings, "own")
