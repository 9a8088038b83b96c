"""Randomness is a function of (seed, role, round, client); global generators are never touched.

Equal arguments give equal streams on every runtime, in every process and after every resume, and two roles never
share a stream: changing the selector does not change a client's training noise.
"""

import zlib

import numpy as np
import torch


def generator(seed: int, role: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """A fresh NumPy generator for one purpose.

    Args:
        seed: the experiment's seed, >= 0.
        role: what the numbers are for ("select", "train", "split" ...).
        round: round number, 0 = before the first.
        client: client index, or 0 where the role has none.
    """
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(_entropy(seed, role, round, client))))


def torch_generator(seed: int, role: str, round: int = 0, client: int = 0) -> torch.Generator:
    """The same for torch: a fresh CPU generator for one purpose."""
    state = np.random.SeedSequence(_entropy(seed, role, round, client)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))


def _entropy(seed: int, role: str, round: int, client: int) -> tuple[int, int, int, int]:
    return seed, zlib.crc32(role.encode()), round, client
