"""The ledger: every byte that was on the wire, by round x client x direction x purpose, and what clients computed.

Entries are lengths of encoded messages, never estimates. A message with a model in it makes two entries, its payload
under its purpose and the rest under "header", and a third, "halo", where it carries rows of nodes; so the ledger's
total is the sum of `len()` of all messages.
"""

from dataclasses import dataclass, field

DIRECTIONS = ("down", "up")
LOCAL, TRAINING = "local", "training"
"""Direction and purpose of what a client computed, which moved no bytes."""
PURPOSES = ("model", "probe", "halo", "statistics", "evaluation", "smoothing", "matching", "masking", "header")


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Args:
        round: 0 is the set-up before the first round.
        client: client index.
        direction: "down" (server to client), "up", or "local" for what a client computes.
        purpose: one of `PURPOSES`; of what it computes "training", "statistics" before and "evaluation" after that.
        bytes: how many.
        flops: operations of the products that it computed, a multiply-add as two.
    """

    round: int
    client: int
    direction: str
    purpose: str
    bytes: int
    flops: int = 0

    def json(self) -> str:
        """Return a line of JSON: there are many, and an encoder takes seven times as long for one."""
        return (
            f'{{"round": {self.round}, "client": {self.client}, "direction": "{self.direction}", '
            f'"purpose": "{self.purpose}", "bytes": {self.bytes}, "flops": {self.flops}}}'
        )


@dataclass
class Ledger:
    """Running totals, and the entries that are not yet stored."""

    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*DIRECTIONS, *PURPOSES), 0))
    pending: list[Entry] = field(default_factory=list)

    def charge(
        self, round: int, client: int, direction: str, purpose: str, bytes: int, header: int = 0, halo: int = 0
    ) -> None:
        """Enter one message of `bytes` bytes, `header` of them header and `halo` of them rows of nodes."""
        parts = {purpose: bytes - header - halo, "header": header}
        parts["halo"] = parts.get("halo", 0) + halo
        for name, amount in parts.items():
            if amount:
                self.pending.append(Entry(round, client, direction, name, amount))
                self.totals[direction] += amount
                self.totals[name] += amount

    def compute(self, round: int, client: int, purpose: str, flops: int) -> None:
        """Enter what a client computed in a round."""
        if flops:
            self.pending.append(Entry(round, client, LOCAL, purpose, 0, flops))

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
