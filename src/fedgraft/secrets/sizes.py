"""Bytes of keys, shares and boxes, which both ends of a message know."""

from typing import Final

KEY_BYTES: Final = 32
PUBLIC_BYTES: Final = 2 * KEY_BYTES
"""Of a client's two public keys: for masks, and for shares."""
SHARE_BYTES: Final = 33
"""Of a number of 257 bits."""
TAG_BYTES: Final = 16
BOX_BYTES: Final = 2 * SHARE_BYTES + TAG_BYTES
"""Of a sealed pair of shares."""
SIGNATURE_BYTES: Final = 2 * 66
"""Of two numbers, on the largest curve that a node's key may be of: P-521."""
CONFIRM_BYTES: Final = 16
"""Of a code by which one client confirms to another that it is in the sum."""
