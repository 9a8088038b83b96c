"""Rows that clients tell each other by way of a server that cannot read them: each is encrypted by itself.

A row is encrypted with AES-256-SIV: a tag of 16 bytes, made of the row and of where it belongs, then the row, encrypted
under that tag. So no nonce has to be kept: a round that is made again after a kill encrypts equal rows to equal bytes,
and any other row under another tag. Who lacks the key sees whether a row of one place is what it was, and nothing else.

A server can leave rows out, or hand on what it was sent of that place before. It can neither change a row nor put it in
another's place.

Source: AES-SIV is that of RFC 5297, the key is derived by HKDF (RFC 5869); both by the package `cryptography`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from fedgraft.errors import WireError, require
from fedgraft.wire.buffers import bytes_of_rows
from fedgraft.wire.layouts import Array
from fedgraft.wire.tokens import SECRET_BYTES

TAG_BYTES: Final = 16
"""What a row takes more when it is encrypted."""
_KEY_BYTES: Final = 64
"""Of AES-256-SIV: one key for tags, one to encrypt."""
_MARK_BYTES: Final = 16


@dataclass(frozen=True)
class RowSeal:
    """What rows are encrypted with in a run: equal for all sites that have one secret.

    Args:
        secret: that all sites have and the server has not, 32 bytes; b"" = none, as where all clients are on one
            machine. Then a row has zeros for its tag, and is open: only as long as an encrypted one.
        run: the run's name.
    """

    secret: bytes = field(default=b"", repr=False)
    run: str = ""

    def __post_init__(self) -> None:
        allowed = f"{SECRET_BYTES} bytes, or 0 for none"
        require(len(self.secret) in (0, SECRET_BYTES), "The length of a secret", allowed, len(self.secret))

    @property
    def mark(self) -> bytes:
        """16 bytes that two sites have alike if they have the same secret, and that tell nothing else of it."""
        return self._derived("mark", _MARK_BYTES) if self.secret else b""

    def encrypted(self, what: str, places: Array, rows: Array) -> Array:
        """Return encrypted rows, uint8 [rows, 16 + bytes], of uint8 [rows, bytes].

        `what` they are, and where each belongs, int64 [rows, k], must be known to who opens them.
        """
        if not self.secret:
            return np.concatenate([np.zeros((len(rows), TAG_BYTES), np.uint8), rows], axis=1)
        made = [self._cipher.encrypt(row, about) for row, about in self._each(what, places, rows)]
        return np.frombuffer(b"".join(made), np.uint8).reshape(len(rows), TAG_BYTES + rows.shape[1])

    def opened(self, what: str, places: Array, encrypted: Array) -> Array:
        """Return the rows, uint8 [rows, bytes], that were encrypted with the same arguments. Raises `WireError`."""
        count, width = encrypted.shape
        if width < TAG_BYTES:
            raise WireError(f"encrypted rows of {what} of {width} bytes, where a tag has {TAG_BYTES}")
        if not self.secret:
            if encrypted[:, :TAG_BYTES].any():
                raise WireError(f"rows of {what} are encrypted, and this client has no secret to open them")
            return encrypted[:, TAG_BYTES:]
        from cryptography.exceptions import InvalidTag

        try:
            made = [self._cipher.decrypt(row, about) for row, about in self._each(what, places, encrypted)]
        except InvalidTag as error:
            raise WireError(
                f"a row of {what} cannot be opened: it was encrypted under another secret, or changed on its way"
            ) from error
        return np.frombuffer(b"".join(made), np.uint8).reshape(count, width - TAG_BYTES)

    @staticmethod
    def _each(what: str, places: Array, rows: Array) -> Iterator[tuple[bytes, list[bytes]]]:
        """Each row's bytes, and what its tag is of beside them."""
        name, content, about = what.encode(), rows.tobytes(), bytes_of_rows(places).tobytes()
        long, width = rows.shape[1], 8 * places.shape[1]
        for k in range(len(rows)):
            yield content[k * long : (k + 1) * long], [name, about[k * width : (k + 1) * width]]

    @cached_property
    def _cipher(self) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        return AESSIV(self._derived("rows", _KEY_BYTES))

    def _derived(self, purpose: str, length: int) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        info = f"fedgraft sealed {purpose} {self.run}".encode()
        return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(self.secret)
