"""Memory that is freed stays with the process: the next round takes as much, and new pages cost more than to fill them.

The C library gives arrays of some megabytes back to the system as soon as they are freed; messages, updates and
gradients of a large model then take longer to get than to compute.
"""

import ctypes
from functools import cache
from typing import Final

KEPT_BYTES: Final = 1 << 28
"""Most freed memory that stays: updates of 3.5 million parameters from a cohort of ten, twice."""
LARGEST_BYTES: Final = 1 << 25
"""Of a piece that stays; the most that glibc allows."""
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Names of these two in <malloc.h>."""


@cache
def keep_freed() -> bool:
    """Have the allocator keep what is freed; False where the C library is not glibc."""
    try:
        choose = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(choose(_TRIM_THRESHOLD, KEPT_BYTES)) and bool(choose(_MMAP_THRESHOLD, LARGEST_BYTES))
