"""Memory that is freed stays with the process: the next round takes as much, and new pages cost more than to fill them.

The C library gives arrays of some megabytes back to the system as soon as they are freed; messages, updates and
gradients of a large model then take longer to get than to compute. So do states of a million neighbours: with one and
a half million edges it takes less than half as many page faults.
"""

import ctypes
from functools import cache
from typing import Final

KEPT_BYTES: Final = 1 << 28
"""Most freed memory that stays: updates of 3.5 million parameters from a cohort of ten, twice."""
MAPPED: Final = 0
"""Pieces, each with pages of its own, that may be in use at once: such a piece does not stay, whatever its size."""
IDLE_BYTES: Final = 1 << 29
"""Freed memory between pieces in use from which on it is worth a walk over the heap to give it back."""
_TRIM_THRESHOLD: Final = -1
_MMAP_MAX: Final = -4
"""Names of these two in <malloc.h>."""
_COUNTS: Final = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _Heap(ctypes.Structure):
    """The result of mallinfo2, <malloc.h>; `fordblks` are the bytes that are free but kept."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _COUNTS)


@cache
def keep_freed() -> bool:
    """Have the allocator keep what is freed; False where the C library is not glibc."""
    try:
        choose = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(choose(_TRIM_THRESHOLD, KEPT_BYTES)) and bool(choose(_MMAP_MAX, MAPPED))


def give_back(least: int = IDLE_BYTES) -> bool:
    """Give freed memory to the system where at least so many bytes of it lie idle, as after many large messages.

    What is freed between pieces that stay is not given back by itself, whatever `keep_freed` chose, and is rarely of
    the size that is asked for next. False where there is less, or the C library is not glibc.
    """
    try:
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = _Heap
        return library.mallinfo2().fordblks >= least and bool(library.malloc_trim(0))
    except (AttributeError, OSError, TypeError):
        return False
