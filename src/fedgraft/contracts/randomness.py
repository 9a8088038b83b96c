"""Randomness is a function of (seed, role, round, client); global generators are never touched.

Equal arguments give equal streams on every runtime, in every process and after every resume, and two roles never
share a stream: changing the selector does not change a client's training noise.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import numpy as np
import torch

from fedgraft.errors import FedgraftError
from fedgraft.wire.layouts import Tree


def generator(seed: int, role: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """A fresh NumPy generator for one purpose.

    Args:
        seed: the experiment's seed, >= 0.
        role: what the numbers are for ("select", "train", "split" ...).
        round: round number, 0 = before the first.
        client: client index, or 0 where the role has none.
    """
    return np.random.Generator(np.random.Philox(_sequence(seed, role, round, client)))


class _Unused:
    def __getattr__(self, name: str) -> Any:
        raise FedgraftError("A method with chancy = False drew random numbers; leave that out of its class.")


UNUSED: Final = cast(np.random.Generator, _Unused())
"""What those are given who say that they draw nothing: a client's generators take a third as long as a step on a small
model (measured: 0.09 of 0.25 ms)."""


def generator_where(chancy: bool, seed: int, role: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """A fresh generator for a method that is `chancy`, else `UNUSED`."""
    return generator(seed, role, round, client) if chancy else UNUSED


def torch_generator(seed: int, role: str, round: int = 0, client: int = 0) -> torch.Generator:
    """The same for torch: a fresh CPU generator for one purpose."""
    return torch.Generator().manual_seed(_number(seed, role, round, client))


@contextmanager
def seeded_torch(seed: int, role: str, round: int = 0, client: int = 0, device: str = "cpu") -> Iterator[None]:
    """Torch's own generators, from which dropout draws, seeded for one purpose and then put back as they were."""
    number = _number(seed, role, round, client)
    cpu_before = torch.get_rng_state()
    cuda_before = None if device == "cpu" else torch.cuda.get_rng_state(device)
    try:
        # Not torch.manual_seed: it seeds every device there may be, and formats a stack trace for those not in use.
        torch.default_generator.manual_seed(number)
        if cuda_before is not None:
            torch.cuda.manual_seed(number)
        yield
    finally:
        torch.set_rng_state(cpu_before)
        if cuda_before is not None:
            torch.cuda.set_rng_state(cuda_before, device)


def state_of(g: np.random.Generator) -> Tree:
    """Where a generator is."""
    state = dict(g.bit_generator.state)
    return {**state, "state": dict(state["state"])}


def set_state(g: np.random.Generator, state: Tree) -> None:
    """Put a generator where `state_of` was called."""
    g.bit_generator.state = cast(dict[str, Any], state)


def _number(seed: int, role: str, round: int, client: int) -> int:
    return int(_sequence(seed, role, round, client).generate_state(1, np.uint64)[0])


def _sequence(seed: int, role: str, round: int, client: int) -> np.random.SeedSequence:
    numbers = seed, zlib.crc32(role.encode()), round, client
    # NumPy turns numbers into words of 32 bits one by one, which takes longer than all that it does with them.
    return np.random.SeedSequence(numbers if max(numbers) >= 2**32 else np.array(numbers, np.uint32))
