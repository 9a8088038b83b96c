"""The ledger: every byte that was on the wire, by round x client x direction x purpose.

Entries are lengths of encoded messages, never estimates. A message with a model in it makes two entries: its payload
under its purpose and the rest under "header"; so the ledger's total is the sum of `len()` of all messages.
"""

from dataclasses import dataclass, field

DIRECTIONS = ("down", "up")
PURPOSES = ("model", "probe", "halo", "statistics", "evaluation", "header")


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Args:
        round: 0 is the set-up before the first round.
        client: client index.
        direction: "down" (server to client) or "up".
        purpose: one of `PURPOSES`.
        bytes: how many.
    """

    round: int
    client: int
    direction: str
    purpose: str
    bytes: int


@dataclass
class Ledger:
    """Running totals, and the entries that are not yet stored."""

    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*DIRECTIONS, *PURPOSES), 0))
    pending: list[Entry] = field(default_factory=list)

    def charge(self, round: int, client: int, direction: str, purpose: str, bytes: int, header: int = 0) -> None:
        """Enter one message of `bytes` bytes, `header` of them header."""
        for name, amount in ((purpose, bytes - header), ("header", header)):
            if amount:
                self.pending.append(Entry(round, client, direction, name, amount))
                self.totals[direction] += amount
                self.totals[name] += amount

    @property
    def total(self) -> int:
        """All bytes so far, both directions."""
        return self.totals["down"] + self.totals["up"]

    def summary(self) -> dict[str, int]:
        """The "bytes" object of a run's summary."""
        return {"total": self.total, **self.totals}

    def drain(self) -> list[Entry]:
        """The entries since the last call, to be stored."""
        entries, self.pending = self.pending, []
        return entries
