"""Writes a made-up copy of AMLSim's tables."""

from collections.abc import Sequence
from pathlib import Path

ACCOUNTS = [f"{k},{int(k % 10 == 0)},{100 + 3 * k},{k if k % 10 == 0 else -1}" for k in range(60)]
"""60 accounts, each tenth one of fraud."""
TRANSFERS = [f"{k % 60},{(7 * k + 1 + k // 60) % 60},{10 + k % 13},{k % 20}" for k in range(180)]


def write_transfers(folder: Path, accounts: Sequence[str] = ACCOUNTS, transfers: Sequence[str] = TRANSFERS) -> None:
    """Write rows of both tables, with the headers of the real ones."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nodes.csv").write_text("\n".join(["nodeid,isFraud,init_balance,fraudStep", *accounts, ""]))
    (folder / "transactions.csv").write_text("\n".join(["sourceNodeId,targetNodeId,value,time", *transfers, ""]))
